package client

import (
	"fmt"
	"math"
	"math/big"
)

const most63 = math.MaxInt64

var channelEntries = []string{"kind", "offset", "divisor", "P", "Q", "width", "others", "total"}

var kindEntries = map[string][]string{
	"block":       nil,
	"wave":        {"ramp", "step"},
	"coin":        {"steps"},
	"hadamard":    {"rows"},
	"linear_hash": {"symbols", "digits", "functions"},
	"xxh32":       {"symbols"},
}

func readLaw(e *entries, value any) law {
	object := e.object(value, "law", "positions", "cells", "shares", "channels")
	l := law{
		positions: e.integer(object["positions"], "law.positions", 2),
		cells:     e.integer(object["cells"], "law.cells", 2),
	}
	if object["shares"] != nil {
		for _, share := range e.list(object["shares"], "law.shares", 1, 64) {
			l.shares = append(l.shares, e.integer(share, "law.shares", 1))
		}
	}
	for i, item := range e.list(object["channels"], "law.channels", 1, 64) {
		l.channels = append(l.channels, readChannel(e, item, fmt.Sprintf("law.channels[%d]", i)))
	}
	return l
}

func readChannel(e *entries, value any, what string) channel {
	object, _ := value.(map[string]any)
	kind, _ := object["kind"].(string)
	extra, known := kindEntries[kind]
	if !known {
		e.fail(what+".kind", "a kind that this client knows")
		return channel{}
	}
	e.object(value, what, append(append([]string{}, channelEntries...), extra...)...)
	c := channel{kind: kind, offset: e.integer(object["offset"], what+".offset", 0)}
	for name, place := range map[string]*int64{
		"divisor": &c.divisor, "P": &c.p, "Q": &c.q, "width": &c.width, "others": &c.others, "total": &c.total,
		"ramp": &c.ramp, "step": &c.step, "steps": &c.steps,
		"rows": &c.rows, "symbols": &c.symbols, "digits": &c.digits, "functions": &c.functions,
	} {
		if item, there := object[name]; there {
			*place = e.integer(item, what+"."+name, 1)
		}
	}
	return c
}

// check is what makes a law keep ε, whoever wrote it; it also sets the sum of shares.
func (l *law) check(epsilon float64) error {
	if l.positions > 1<<26 {
		return fmt.Errorf("%w: more than 2^26 positions", ErrManifest)
	}
	if (l.shares == nil && len(l.channels) != 1) || (l.shares != nil && len(l.shares) != len(l.channels)) {
		return fmt.Errorf("%w: each channel must have a share", ErrManifest)
	}
	for _, share := range l.shares {
		if share > most63-l.sum {
			return fmt.Errorf("%w: the sum of shares is beyond 2^63 - 1", ErrManifest)
		}
		l.sum += share
	}
	var end int64
	for i, c := range l.channels {
		cells, err := c.check(l.positions, epsilon)
		if err != nil {
			return fmt.Errorf("%w: law.channels[%d]: %v", ErrManifest, i, err)
		}
		if c.offset != end || cells > most53-end {
			return fmt.Errorf("%w: law.channels[%d] does not begin where the one before ends, or ends beyond 2^53", ErrManifest, i)
		}
		end += cells
	}
	if l.cells != end {
		return fmt.Errorf("%w: law.cells must be %d", ErrManifest, end)
	}
	return nil
}

// check returns how many cells the channel has, at most 2^53.
func (c channel) check(positions int64, epsilon float64) (int64, error) {
	total := new(big.Int).Add(product(c.width, c.p), product(c.others, c.q))
	if total.Cmp(big.NewInt(c.total)) != 0 {
		return 0, fmt.Errorf("its total must be %v", total)
	}
	if c.p < c.q || !keepsEpsilon(c.p, c.q, epsilon) {
		return 0, fmt.Errorf("P must be from Q to Q·e^ε, for ε = %v", epsilon)
	}
	most := (positions - 1) / c.divisor
	fits, cells := c.fit(most)
	if !fits || cells > most53 {
		return 0, fmt.Errorf("its integers do not fit together")
	}
	return cells, nil
}

// fit tells whether every draw for x from 0 to most is one of the channel's cells. The total fits into 63 bits, so
// width + others does.
func (c channel) fit(most int64) (bool, int64) {
	single := c.width == 1
	switch c.kind {
	case "block":
		return most <= c.others, c.width + c.others
	case "wave":
		all := c.width + c.others
		return c.ramp-1 <= c.others-most && all%c.step == 0, all / c.step
	case "coin":
		return single && c.others == 1 && most == c.steps, 2
	case "hadamard":
		fits := single && c.others == 1 && c.rows <= most53/2 && c.rows&(c.rows-1) == 0
		return fits && most/2 < c.rows && most < 1<<16, 2 * c.rows
	case "linear_hash":
		fits := single && c.symbols == c.others+1 && c.digits <= 18 && c.functions <= most53/c.symbols
		return fits && isPower(c.functions, c.symbols, c.digits) && most < c.functions && most < 1<<16, c.symbols * c.functions
	case "xxh32":
		return single && c.symbols == c.others+1 && c.symbols <= most53>>32 && most < 1<<16, c.symbols << 32
	}
	return false, 0
}

// isPower tells whether number is base to the exponent.
func isPower(number, base, exponent int64) bool {
	for ; exponent > 0; exponent-- {
		if number%base != 0 {
			return false
		}
		number /= base
	}
	return number == 1
}

func product(a, b int64) *big.Int {
	return new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
}

// keepsEpsilon tells whether P/Q ≤ e^ε, by the exponential series in integers with each term rounded down: what passes
// holds exactly. ε is m / 2^k.
func keepsEpsilon(p, q int64, epsilon float64) bool {
	fraction, exponent := math.Frexp(epsilon)
	m, k := big.NewInt(int64(math.Ldexp(fraction, 53))), uint(53-exponent)
	one := new(big.Int).Lsh(big.NewInt(1), 128)
	term, sum := new(big.Int).Set(one), new(big.Int)
	for i := int64(1); term.Sign() > 0; i++ {
		sum.Add(sum, term)
		term.Mul(term, m).Rsh(term, k).Quo(term, big.NewInt(i))
	}
	return new(big.Int).Mul(big.NewInt(p), one).Cmp(new(big.Int).Mul(big.NewInt(q), sum)) <= 0
}
