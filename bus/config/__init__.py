"""The formats of hook files and settings: parsing with places, validation and its errors, and careful edits."""
