"""Methods that were published after the paper, written from their descriptions, and measured as the paper's are."""
