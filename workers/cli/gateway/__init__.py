"""Commands about gateways: the tokens that they accept."""
