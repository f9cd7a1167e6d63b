"""Sentences made on the spot, and a tokenizer of their words: what a script downloads from the Hub elsewhere."""

import inspect
import random

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, Trainer

GOOD = ["great", "lovely", "brilliant", "moving", "funny", "superb"]
BAD = ["dull", "awful", "tedious", "broken", "bland", "clumsy"]
THINGS = ["film", "plot", "cast", "ending", "music", "camera", "script"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def reviews(number, seed):
    """Lists of texts and of labels: 1 praises, 0 does not."""
    dice = random.Random(seed)
    texts, labels = [], []
    for _ in range(number):
        label = dice.randrange(2)
        words = dice.choices(GOOD if label else BAD, k=2)
        texts.append(f"The {dice.choice(THINGS)} was {words[0]} and the {dice.choice(THINGS)} {words[1]}.")
        labels.append(label)
    return texts, labels


def make_tokenizer(texts):
    """A WordPiece tokenizer as BERT has, of these texts' words: training one numbers its tokens anew each time."""
    normalizer, pre_tokenizer = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    words = {word for text in texts for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(text))}
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *sorted(words)])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    ends = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=64, pad_token="[PAD]", unk_token="[UNK]",
        cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
    )  # fmt: skip


def saved_with(tokenizer):
    """The argument by which Trainer saves the tokenizer with the model; transformers before 4.46 names it otherwise."""
    known = inspect.signature(Trainer.__init__).parameters
    return {"processing_class" if "processing_class" in known else "tokenizer": tokenizer}
