// conform answers `hushgram conform -- conform`: it proves, on this machine, that the client keeps its promise.
package main

import (
	"fmt"
	"os"

	"hushgram.dev/client"
)

func main() {
	if err := client.Conform(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
