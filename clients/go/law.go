package client

import (
	"fmt"
	"math/bits"
	"strconv"
)

// law is how a position becomes a cell.
type law struct {
	positions, cells int64
	shares           []int64 // nil where there is one channel, and nothing to draw
	sum              int64
	channels         []channel
}

// channel is a part of a law: `width` outcomes have the weight P, the others Q.
type channel struct {
	kind                             string
	offset, divisor                  int64
	p, q, width, others, total       int64
	ramp, step, steps                int64
	rows, symbols, digits, functions int64
}

func (l law) cell(position int64, draws *drawer) int64 {
	index := 0
	if l.shares != nil {
		r := draws.below(l.sum)
		for r >= l.shares[index] {
			r -= l.shares[index]
			index++
		}
	}
	c := l.channels[index]
	return c.offset + c.draw(position/c.divisor, draws)
}

// favoured draws from outcomes of which start … start + width - 1 have the weight P.
func (c channel) favoured(start int64, draws *drawer) int64 {
	r := draws.below(c.total)
	if r < c.width*c.p {
		return start + r/c.p
	}
	other := (r - c.width*c.p) / c.q
	if other < start {
		return other
	}
	return other + c.width
}

func (c channel) draw(x int64, draws *drawer) int64 {
	switch c.kind {
	case "block":
		return c.favoured(x, draws)
	case "wave":
		r, extra := draws.below(c.total), c.p-c.q
		if r < c.width*extra {
			return (x + r/extra + draws.below(c.ramp)) / c.step
		}
		return (r - c.width*extra) / c.q / c.step
	case "coin":
		if draws.below(c.steps) < x {
			return c.favoured(1, draws)
		}
		return c.favoured(0, draws)
	case "hadamard":
		row := draws.below(c.rows)
		ones := bits.OnesCount64(uint64(row & (x / 2)))
		return 2*row + c.favoured((1-x%2)^int64(ones%2), draws)
	case "linear_hash":
		function := draws.below(c.functions)
		var symbol int64
		for f, rest := function, x; f > 0 && rest > 0; f, rest = f/c.symbols, rest/c.symbols {
			symbol = (symbol + (f%c.symbols)*(rest%c.symbols)) % c.symbols
		}
		return function*c.symbols + c.favoured(symbol, draws)
	case "xxh32":
		seed := draws.below(1 << 32)
		symbol := int64(xxh32(strconv.FormatInt(x, 10), uint32(seed))) % c.symbols
		return seed*c.symbols + c.favoured(symbol, draws)
	}
	panic(fmt.Sprintf("a channel of the kind %q was not checked", c.kind))
}

// xxh32 of a text of less than 16 bytes: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
func xxh32(text string, seed uint32) uint32 {
	acc := seed + 374761393 + uint32(len(text))
	for ; len(text) >= 4; text = text[4:] {
		word := uint32(text[0]) | uint32(text[1])<<8 | uint32(text[2])<<16 | uint32(text[3])<<24
		acc = bits.RotateLeft32(acc+word*3266489917, 17) * 668265263
	}
	for _, letter := range []byte(text) {
		acc = bits.RotateLeft32(acc+uint32(letter)*374761393, 11) * 2654435761
	}
	acc = (acc ^ acc>>15) * 2246822519
	acc = (acc ^ acc>>13) * 3266489917
	return acc ^ acc>>16
}
