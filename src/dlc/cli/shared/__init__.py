"""What several verbs share: arguments, the job they are told, what a push proves. May import every room but verbs."""
