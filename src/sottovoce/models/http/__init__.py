"""Models behind servers that speak the OpenAI API: ``openai:MODEL@BASE_URL``."""
