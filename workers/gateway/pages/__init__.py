"""The pages at `/`: signing in with a browser, and the files that the browser loads. docs/pages.md is for their users."""
