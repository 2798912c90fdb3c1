"""Language models in GGUF files: fields, weights and the file's own tokenizer."""
