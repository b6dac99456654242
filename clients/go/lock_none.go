//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package client

import "errors"

// lockFile refuses: without a lock two processes could spend one budget twice.
func lockFile(string, bool) (func(), error) {
	return nil, errors.New("this system has no flock, which the ledger needs")
}
