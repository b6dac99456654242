package client

import (
	"fmt"
	"math"
	"sort"
)

// locate is how a value becomes a position.
type locate struct {
	method        string
	low, high     float64
	whole         bool
	start, length float64
	steps         float64
	round         string
	points        []float64 // edges or knots
	positions     int64
}

func readLocate(e *entries, domain, value any) locate {
	ends := e.object(domain, "domain", "scale", "low", "high", "integer")
	e.oneOf(ends["scale"], "domain.scale", "linear", "log")
	e.truth(ends["integer"], "domain.integer")
	l := locate{low: e.real(ends["low"], "domain.low"), high: e.real(ends["high"], "domain.high")}
	if !(l.low < l.high) {
		e.fail("domain.low", "below domain.high")
	}
	object, _ := value.(map[string]any)
	l.method = e.oneOf(object["method"], "locate.method", "scale", "edges", "knots")
	var steps int64
	switch l.method {
	case "scale":
		e.object(value, "locate", "method", "whole", "start", "length", "steps", "round")
		l.whole = e.truth(object["whole"], "locate.whole")
		l.start, l.length = e.real(object["start"], "locate.start"), e.real(object["length"], "locate.length")
		if !(l.length > 0) {
			e.fail("locate.length", "positive")
		}
		steps = e.whole(object["steps"], "locate.steps", 1, mostWhole)
		l.round = e.oneOf(object["round"], "locate.round", "down", "half_even")
	case "edges":
		e.object(value, "locate", "method", "edges")
		l.points = e.rising(object["edges"], "locate.edges", 1)
		l.positions = int64(len(l.points)) + 1
	case "knots":
		e.object(value, "locate", "method", "knots", "steps", "round")
		l.points = e.rising(object["knots"], "locate.knots", 2)
		steps = e.whole(object["steps"], "locate.steps", 1, mostWhole)
		l.round = e.oneOf(object["round"], "locate.round", "half_even")
	}
	l.steps = float64(steps)
	switch l.round {
	case "down":
		l.positions = steps
	case "half_even":
		l.positions = steps + 1
	}
	return l
}

// position of a value. The conversions round each operation by itself: without them Go may fuse two.
func (m *Manifest) position(value float64) (int64, error) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return 0, fmt.Errorf("%w: it is not a finite number", ErrValue)
	}
	l := m.locate
	v := math.Min(math.Max(value, l.low), l.high)
	var scaled float64
	switch l.method {
	case "scale":
		if l.whole {
			v = math.RoundToEven(v)
		}
		scaled = float64(float64(float64(v-l.start)/l.length) * l.steps)
	case "edges":
		return l.countUpTo(v), nil
	case "knots":
		n := int64(len(l.points)) - 1
		k := max(0, min(l.countUpTo(v)-1, n-1))
		share := float64(float64(v-l.points[k]) / float64(l.points[k+1]-l.points[k]))
		scaled = float64(float64(float64(float64(k)+share)/float64(n)) * l.steps)
	}
	if l.round == "down" {
		scaled = math.Floor(scaled)
	} else {
		scaled = math.RoundToEven(scaled)
	}
	return int64(math.Min(math.Max(scaled, 0), float64(l.positions-1))), nil
}

// countUpTo is the number of points that are at most v.
func (l locate) countUpTo(v float64) int64 {
	return int64(sort.Search(len(l.points), func(i int) bool { return l.points[i] > v }))
}
