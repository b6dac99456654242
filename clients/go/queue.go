package client

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// longestQueue limits what a device stores while it has no server.
const longestQueue = 1000

// waiting is a message in the queue. Its file's name has when it expires, in milliseconds since 1970, and its id.
type waiting struct {
	path    string
	expires int64
}

var queued = regexp.MustCompile(`^([0-9]{19})-[0-9a-f]{32}$`)

func (f folder) hasRoom() error {
	all, err := f.waiting()
	if err == nil && len(all) >= longestQueue {
		err = fmt.Errorf("%w: %d messages wait", ErrFull, len(all))
	}
	return err
}

// store keeps a message until it is sent or too old. It is called under the lock.
func (f folder) store(message []byte, id [16]byte, expires int64) error {
	name := fmt.Sprintf("%019d-%s", max(expires, 0), hex.EncodeToString(id[:]))
	return replaceFile(f.path("new"), f.path("queue", name), message)
}

// waiting messages, those that expire first before the others.
func (f folder) waiting() ([]waiting, error) {
	files, err := os.ReadDir(f.path("queue"))
	var all []waiting
	for _, file := range files {
		if match := queued.FindStringSubmatch(file.Name()); match != nil {
			expires, _ := strconv.ParseInt(match[1], 10, 64)
			all = append(all, waiting{filepath.Join(f.path("queue"), file.Name()), expires})
		}
	}
	return all, err
}
