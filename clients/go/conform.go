package client

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

const longestLine = 8 << 20

// Conform answers `hushgram conform`, one JSON object a line, until the input ends.
func Conform(input io.Reader, output io.Writer) error {
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, longestLine+2)
	answers := bufio.NewWriter(output)
	encoder := json.NewEncoder(answers)
	session := &conformer{}
	for lines.Scan() {
		answer, err := session.answer(lines.Bytes())
		if err != nil {
			answer = map[string]any{"refused": err.Error()}
		}
		if err := errors.Join(encoder.Encode(answer), answers.Flush()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// conformer remembers the last manifest.
type conformer struct{ manifest *Manifest }

type question struct {
	Manifest json.RawMessage `json:"manifest"`
	Value    string          `json:"value"`
	Group    *string         `json:"group"`
	Draws    *[][2]string    `json:"draws"`
	Repeat   *int            `json:"repeat"`
	Time     *int64          `json:"time"`
	ID       *string         `json:"id"`
	Upload   bool            `json:"upload"`
	Times    []int64         `json:"times"`
	Slot     int64           `json:"slot"`
}

func (s *conformer) answer(line []byte) (map[string]any, error) {
	var q question
	if err := json.Unmarshal(line, &q); err != nil {
		return nil, err
	}
	if q.Manifest != nil {
		manifest, err := Load(q.Manifest, 20)
		s.manifest = manifest
		if err != nil {
			return nil, err
		}
	}
	if s.manifest == nil {
		return nil, fmt.Errorf("%w: there is none", ErrManifest)
	}
	if q.Times != nil {
		return s.grant(q)
	}
	return s.draw(q)
}

func (s *conformer) grant(q question) (map[string]any, error) {
	if q.Slot < 0 || q.Slot >= s.manifest.slots {
		return nil, fmt.Errorf("%w: there is no slot %d", ErrValue, q.Slot)
	}
	kept := emptyLedger()
	kept.Slots[s.manifest.collection] = slot{q.Slot, s.manifest.slots}
	granted := make([]bool, len(q.Times))
	for i, now := range q.Times {
		granted[i] = kept.spend(s.manifest, now, 1) == nil
	}
	return map[string]any{"granted": granted}, nil
}

func (s *conformer) draw(q question) (map[string]any, error) {
	value, finite := parseReal(q.Value)
	if !finite {
		return nil, fmt.Errorf("%w: %q is not a finite number", ErrValue, q.Value)
	}
	position, err := s.manifest.position(value)
	if err != nil {
		return nil, err
	}
	group, err := s.group(q)
	if err != nil {
		return nil, err
	}
	at, id, err := s.stamp(q)
	if err != nil {
		return nil, err
	}
	count := 1
	if q.Repeat != nil {
		if count = *q.Repeat; count < 1 || count > longestLine {
			return nil, errors.New("repeat must be positive, and its answer fit into a line")
		}
	}
	draws, left := q.drawer()
	cells := make([]int64, count)
	for i := range cells {
		cells[i] = s.manifest.law.cell(position, draws)
	}
	if draws.err != nil {
		return nil, draws.err
	}
	if left() > 0 {
		return nil, errors.New("draws are left over")
	}
	report, batch := "", ""
	if id != nil {
		report = hex.EncodeToString(s.manifest.encodeReport(cells[0], at, group, *id))
		batch = hex.EncodeToString(s.manifest.encodeBatch(cells, at, group, *id))
	}
	answer := map[string]any{"position": position, "cell": cells[0]}
	switch {
	case q.Upload:
		return map[string]any{"upload": report}, nil
	case q.Repeat != nil:
		answer = map[string]any{"cells": cells}
	case id != nil:
		answer["report"] = report
	}
	if id != nil {
		answer["batch"] = batch
	}
	return answer, nil
}

// group is "" where there is none; the empty text is no label.
func (s *conformer) group(q question) (string, error) {
	if q.Group == nil {
		return "", nil
	}
	if *q.Group == "" {
		return "", fmt.Errorf("%w: the empty text is no group", ErrValue)
	}
	return *q.Group, s.manifest.checkGroup(*q.Group)
}

// stamp is the cut time and the id of messages: those of the question, the client's own for an upload, or none.
func (s *conformer) stamp(q question) (int64, *[16]byte, error) {
	if q.Upload {
		id, err := newID()
		return s.manifest.cut(time.Now().UnixMilli()), &id, err
	}
	if q.Time == nil && q.ID == nil {
		return 0, nil, nil
	}
	if q.Time == nil || q.ID == nil || *q.Time < 0 || *q.Time > most53 {
		return 0, nil, errors.New("messages need a time and an id")
	}
	octets, err := hex.DecodeString(*q.ID)
	if err != nil || len(octets) != 16 {
		return 0, nil, errors.New("an id has 32 hexadecimal digits")
	}
	return s.manifest.cut(*q.Time), (*[16]byte)(octets), nil
}

// drawer gives the scripted draws, or those of the client's generator, and how many scripted ones are left.
func (q question) drawer() (*drawer, func() int) {
	if q.Draws == nil {
		return &drawer{next: secureBelow}, func() int { return 0 }
	}
	script := *q.Draws
	next := func(limit int64) (int64, error) {
		if len(script) == 0 {
			return 0, errors.New("draws are missing")
		}
		answer, err := strconv.ParseInt(script[0][1], 10, 64)
		if err != nil || script[0][0] != strconv.FormatInt(limit, 10) || answer < 0 || answer >= limit {
			return 0, fmt.Errorf("below(%d) is not scripted here, but %q", limit, script[0])
		}
		script = script[1:]
		return answer, nil
	}
	return &drawer{next: next}, func() int { return len(script) }
}
