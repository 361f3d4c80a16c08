"""`fleethook simulate`, `backtest` and `suggest`: what hooks would say before they are in force."""
