package client

import (
	"encoding/hex"
	"fmt"
	"slices"
)

const (
	reportFingerprint = "8d51ac06d359ba88"
	batchFingerprint  = "f5c4f5368c715f19"
	mostSpent         = 1_000_000_000_000_000
	tenYears          = 315_360_000_000
)

var mechanisms = []string{
	"square_wave", "square_wave_continuous", "general_wave", "randomized_response", "local_hashing", "seeded_hashing",
	"hierarchy", "haar", "stochastic_rounding", "piecewise",
}

// Manifest is what a device knows of a collection. It was checked: its law keeps its ε.
type Manifest struct {
	collection string
	revision   []byte
	locate     locate
	law        law
	groups     []string
	slice      int64
	sliceFirst int64
	maxAge     int64
	epsilon    float64
	cost       int64
	budget     *budget
	slots      int64
	total      *budget
}

// Collection is the name that reports carry.
func (m *Manifest) Collection() string { return m.collection }

// Epsilon is the promise of one report.
func (m *Manifest) Epsilon() float64 { return m.epsilon }

// Load checks a manifest, so that no manifest makes a client break its ε, and refuses one whose report costs more than
// mostEpsilon. An app that fixes mostEpsilon in its own code need not trust the server with it; 20 is the most there is.
func Load(data []byte, mostEpsilon float64) (*Manifest, error) {
	object, err := parseObject(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrManifest, err)
	}
	e := &entries{}
	e.oneOf(object["format"], "format", "hushgram-manifest/1")
	e.oneOf(object["mechanism"], "mechanism", mechanisms...)
	m := &Manifest{
		collection: e.label(object["collection"], "collection"),
		slice:      e.whole(object["slice_ms"], "slice_ms", 1, mostWhole),
		sliceFirst: e.whole(object["slice_first_ms"], "slice_first_ms", 0, mostWhole),
		maxAge:     e.whole(object["max_age_ms"], "max_age_ms", 0, mostWhole),
	}
	m.revision, _ = hex.DecodeString(e.fingerprint(object["revision"], "revision"))
	for _, group := range e.list(object["groups"], "groups", 0, 10_000) {
		m.groups = append(m.groups, e.label(group, "groups"))
	}
	slices.Sort(m.groups)
	if len(slices.Compact(slices.Clone(m.groups))) != len(m.groups) {
		e.fail("groups", "of different labels")
	}
	schemas := e.object(object["schemas"], "schemas", "Report", "ReportBatch")
	e.oneOf(schemas["Report"], "schemas.Report", reportFingerprint)
	e.oneOf(schemas["ReportBatch"], "schemas.ReportBatch", batchFingerprint)
	m.readDevice(e, object["device"], mostEpsilon)
	m.locate = readLocate(e, object["domain"], object["locate"])
	m.law = readLaw(e, object["law"])
	if e.err == nil {
		e.err = m.law.check(m.epsilon)
	}
	if e.err == nil && m.locate.positions != m.law.positions {
		e.fail("law.positions", fmt.Sprintf("%d, as many as values reach", m.locate.positions))
	}
	if e.err != nil {
		return nil, e.err
	}
	return m, nil
}

func (m *Manifest) readDevice(e *entries, value any, mostEpsilon float64) {
	device := e.object(value, "device", "epsilon", "cost", "budget", "slots", "total")
	m.epsilon = e.real(device["epsilon"], "device.epsilon")
	if !(m.epsilon > 0 && m.epsilon <= 20 && m.epsilon <= mostEpsilon) {
		e.fail("device.epsilon", fmt.Sprintf("above 0 and at most %v", min(20, mostEpsilon)))
	}
	m.cost = e.whole(device["cost"], "device.cost", 1, mostSpent)
	if !(float64(m.cost) >= float64(1e9*m.epsilon)*(1-1e-9)) {
		e.fail("device.cost", "at least a billion times ε")
	}
	m.budget = readBudget(e, device["budget"], "device.budget")
	m.total = readBudget(e, device["total"], "device.total")
	m.slots = e.whole(device["slots"], "device.slots", 1, 10_000)
	if m.budget == nil && m.slots != 1 {
		e.fail("device.slots", "1 without a budget")
	}
}

func readBudget(e *entries, value any, what string) *budget {
	if value == nil {
		return nil
	}
	object := e.object(value, what, "amount", "every_ms")
	return &budget{
		amount: e.whole(object["amount"], what+".amount", 0, mostSpent),
		every:  e.whole(object["every_ms"], what+".every_ms", 1, tenYears),
	}
}

func (m *Manifest) checkGroup(group string) error {
	if _, known := slices.BinarySearch(m.groups, group); group != "" && !known {
		return fmt.Errorf("%w: the collection has no group %q", ErrValue, group)
	}
	return nil
}
