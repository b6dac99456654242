package client

import (
	"encoding/binary"
	"encoding/hex"
)

// message begins Avro's single-object encoding; strings of bytes follow with their length.
type message []byte

func (m *Manifest) begin(fingerprint string) message {
	name, _ := hex.DecodeString(fingerprint)
	started := append(message{0xC3, 0x01}, name...).octets([]byte(m.collection))
	return append(started, m.revision...)
}

// long is zigzag coded, in groups of seven bits: what Go calls a varint.
func (b message) long(number int64) message { return binary.AppendVarint(b, number) }

func (b message) octets(octets []byte) message { return append(b.long(int64(len(octets))), octets...) }

func (b message) end(at int64, group string, id [16]byte) []byte {
	b = b.long(at)
	if group == "" {
		b = append(b, 0)
	} else {
		b = append(b, 2).octets([]byte(group))
	}
	return append(append(b, 2), id[:]...)
}

// encodeReport takes a time that is cut already.
func (m *Manifest) encodeReport(cell, at int64, group string, id [16]byte) []byte {
	return m.begin(reportFingerprint).long(cell).end(at, group, id)
}

func (m *Manifest) encodeBatch(cells []int64, at int64, group string, id [16]byte) []byte {
	width := 1
	for width < 8 && uint64(m.law.cells-1)>>(8*width) != 0 {
		width *= 2
	}
	packed := make([]byte, 0, len(cells)*width+8)
	for _, cell := range cells {
		packed = binary.LittleEndian.AppendUint64(packed, uint64(cell))
		packed = packed[:len(packed)-8+width]
	}
	return m.begin(batchFingerprint).octets(packed).end(at, group, id)
}

// cut is the start of the slice that a time belongs to: finer would tell more than the server's windows need.
func (m *Manifest) cut(at int64) int64 {
	beyond := (at - m.sliceFirst) % m.slice
	if beyond < 0 {
		beyond += m.slice
	}
	return at - beyond
}
