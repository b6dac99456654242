module hushgram.dev/client

go 1.21
