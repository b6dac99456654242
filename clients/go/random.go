package client

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math/bits"
)

// drawer draws uniform integers and remembers the first error; what is drawn after it must not be used.
type drawer struct {
	next func(limit int64) (int64, error)
	err  error
}

func (d *drawer) below(limit int64) int64 {
	if d.err != nil {
		return 0
	}
	drawn, err := d.next(limit)
	if err != nil {
		d.err = err
		return 0
	}
	return drawn
}

// secureBelow takes as many random bits as limit - 1 has, again and again until they are below limit: no remainder, no bias.
func secureBelow(limit int64) (int64, error) {
	if limit < 1 {
		return 0, fmt.Errorf("no integer is below %d", limit)
	}
	unused := 64 - bits.Len64(uint64(limit-1))
	for {
		var random [8]byte
		if _, err := rand.Read(random[:]); err != nil {
			return 0, fmt.Errorf("no random bits: %w", err)
		}
		if drawn := int64(binary.LittleEndian.Uint64(random[:]) >> unused); drawn < limit {
			return drawn, nil
		}
	}
}

func newID() (id [16]byte, err error) {
	if _, err = rand.Read(id[:]); err != nil {
		err = fmt.Errorf("no random bits: %w", err)
	}
	return id, err
}
