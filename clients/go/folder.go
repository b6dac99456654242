package client

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const ledgerFormat = "hushgram-ledger/1\n"

// errHeld tells that another holds a lock that was not to be waited for.
var errHeld = errors.New("another process holds the lock")

// folder is where a device keeps its ledger and its queue: a path.
//
//	lock      held while the ledger or the queue is written
//	ledger    what was spent, under its checksum
//	new       what is about to become one of the other files
//	queue/    the messages that wait, one to a file
//	sending   held while messages are sent
//	pause     when to send again
type folder string

func (f folder) path(name ...string) string {
	return filepath.Join(append([]string{string(f)}, name...)...)
}

func openFolder(path string) (folder, error) {
	f := folder(path)
	for _, made := range []string{f.path(), f.path("queue")} {
		err := os.Mkdir(made, 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = syncFolder(filepath.Dir(made))
		}
		if err != nil {
			return "", err
		}
	}
	return f, nil
}

// lock waits for its turn among all clients of the folder.
func (f folder) lock() (unlock func(), err error) {
	return lockFile(f.path("lock"), true)
}

// spend returns nil only when the disk has the spending. It is called under the lock.
func (f folder) spend(m *Manifest, now, reports int64, draws *drawer) error {
	kept, err := f.readLedger()
	if err != nil {
		return err
	}
	if kept.drawSlot(m, draws) {
		if draws.err != nil {
			return draws.err
		}
		if err := f.writeLedger(kept); err != nil {
			return err
		}
	}
	if err := kept.spend(m, now, reports); err != nil {
		return err
	}
	return f.writeLedger(kept)
}

// readLedger accepts what was written, or that nothing ever was.
func (f folder) readLedger() (ledger, error) {
	kept := emptyLedger()
	data, err := os.ReadFile(f.path("ledger"))
	if errors.Is(err, fs.ErrNotExist) {
		return kept, nil
	}
	if err != nil {
		return kept, err
	}
	checksum, text, _ := bytes.Cut(bytes.TrimPrefix(data, []byte(ledgerFormat)), []byte("\n"))
	if !bytes.HasPrefix(data, []byte(ledgerFormat)) || string(checksum) != checksumOf(text) {
		return kept, fmt.Errorf("%s is not what was written: no report while it is there", f.path("ledger"))
	}
	return kept, json.Unmarshal(text, &kept)
}

func (f folder) writeLedger(kept ledger) error {
	text, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	return replaceFile(f.path("new"), f.path("ledger"), []byte(ledgerFormat+checksumOf(text)+"\n"+string(text)))
}

func checksumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// replaceFile puts data in the place of a file: all of it or nothing, and for good when it returns nil.
func replaceFile(temporary, path string, data []byte) error {
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes names last that were made in a folder.
func syncFolder(path string) error {
	opened, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}
