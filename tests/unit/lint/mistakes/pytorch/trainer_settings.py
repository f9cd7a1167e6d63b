"""Fine-tuning with the Trainer, with settings that stop it all the time."""

from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer
from transformers import TrainingArguments as Settings

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
data = load_dataset("imdb").map(lambda rows: tokenizer(rows["text"], truncation=True), batched=True)
settings = Settings(
    output_dir="out",
    per_device_train_batch_size=32,
    logging_steps=1,  # mistake: DLC115
    save_steps=5,  # mistake: DLC116
)
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
Trainer(model=model, args=settings, train_dataset=data["train"], processing_class=tokenizer).train()
