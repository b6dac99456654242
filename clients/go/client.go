// Package client reports a number to hushgram under ε-local differential privacy.
//
// A device loads a manifest, and reports values. Each report is drawn by the integers of the manifest's law, which keep ε;
// a ledger in files limits what is spent in each period, and a queue in files holds the messages until they are sent.
// docs/clients.md says what happens here, step by step.
package client

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

var (
	// ErrManifest is wrapped by errors of manifests that do not fit together.
	ErrManifest = errors.New("the manifest is refused")
	// ErrValue is wrapped by errors of values and groups that cannot be reported.
	ErrValue = errors.New("the value is refused")
	// ErrBudget is wrapped where the ledger allows no report now. Nothing is wrong: a later period may allow one.
	ErrBudget = errors.New("the budget allows no report")
	// ErrFull is wrapped where messages wait that must be sent first. Nothing was spent.
	ErrFull = errors.New("the queue is full")
)

// Client reports values of one collection. Several may share a folder, also from several processes.
type Client struct {
	manifest *Manifest
	folder   folder
	now      func() time.Time
	turn     sync.Mutex // a goroutine that waits for a file's lock holds a thread: let one wait, not all
}

// Open keeps the ledger and the queue in a folder, which is made if its parent exists. All collections of a device
// belong into one folder: they share the total budget.
func Open(manifest *Manifest, path string) (*Client, error) {
	if manifest == nil {
		return nil, fmt.Errorf("%w: there is none", ErrManifest)
	}
	opened, err := openFolder(path)
	if err != nil {
		return nil, err
	}
	return &Client{manifest: manifest, folder: opened, now: time.Now}, nil
}

// Report spends one report's cost, draws the report of a value and stores it in the queue. The group may be "", none.
// After an error nothing was stored, but the budget may be spent; to call again is another report.
func (c *Client) Report(value float64, group string) error {
	return c.report([]float64{value}, group, func(cells []int64, at int64, id [16]byte) []byte {
		return c.manifest.encodeReport(cells[0], at, group, id)
	})
}

// ReportBatch is Report for several values in one message. Each costs as much as one report, and all are drawn or none.
func (c *Client) ReportBatch(values []float64, group string) error {
	return c.report(values, group, func(cells []int64, at int64, id [16]byte) []byte {
		return c.manifest.encodeBatch(cells, at, group, id)
	})
}

func (c *Client) report(values []float64, group string, encode func([]int64, int64, [16]byte) []byte) error {
	if len(values) == 0 {
		return fmt.Errorf("%w: there is none", ErrValue)
	}
	if err := c.manifest.checkGroup(group); err != nil {
		return err
	}
	positions := make([]int64, len(values))
	for i, value := range values {
		position, err := c.manifest.position(value)
		if err != nil {
			return err
		}
		positions[i] = position
	}
	c.turn.Lock()
	defer c.turn.Unlock()
	unlock, err := c.folder.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.folder.hasRoom(); err != nil {
		return err
	}
	draws := &drawer{next: secureBelow}
	now := c.now().UnixMilli()
	if err := c.folder.spend(c.manifest, now, int64(len(values)), draws); err != nil {
		return err
	}
	cells := make([]int64, len(positions))
	for i, position := range positions {
		cells[i] = c.manifest.law.cell(position, draws)
	}
	id, err := newID()
	if draws.err != nil || err != nil {
		return errors.Join(draws.err, err)
	}
	at := c.manifest.cut(now)
	return c.folder.store(encode(cells, at, id), id, at+c.manifest.maxAge)
}
