//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package client

import (
	"os"
	"syscall"
)

// lockFile locks a file among processes and among callers in this one; the system gives it back when its holder dies.
func lockFile(path string, wait bool) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		err = syscall.Flock(int(file.Fd()), how)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		file.Close()
		if err == syscall.EWOULDBLOCK {
			return nil, errHeld
		}
		return nil, &os.PathError{Op: "flock", Path: path, Err: err}
	}
	return func() { file.Close() }, nil
}
