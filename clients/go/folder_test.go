package client

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var noon = time.UnixMilli(1_767_268_800_000)

// sample is a manifest of ε = 1 whose budget allows this many reports a day.
func sample(t *testing.T, reports, slots int) *Manifest {
	t.Helper()
	text := fmt.Sprintf(`{"format": "hushgram-manifest/1", "collection": "commute", "revision": "0123456789abcdef",
		"domain": {"scale": "linear", "low": "0.0", "high": "4.0", "integer": false},
		"locate": {"method": "scale", "whole": false, "start": "0.0", "length": "4.0", "steps": 4, "round": "down"},
		"mechanism": "randomized_response",
		"law": {"positions": "4", "cells": "4", "shares": null, "channels": [{"kind": "block", "offset": "0", "divisor": "1",
			"P": "2", "Q": "1", "width": "1", "others": "3", "total": "5"}]},
		"groups": ["DE"], "slice_ms": 3600000, "slice_first_ms": 0, "max_age_ms": 86400000,
		"device": {"epsilon": "1.0", "cost": 1000000000, "budget": {"amount": %d000000000, "every_ms": 86400000},
			"slots": %d, "total": null},
		"schemas": {"Report": "8d51ac06d359ba88", "ReportBatch": "f5c4f5368c715f19"}}`, reports, slots)
	m, err := Load([]byte(text), 1.0)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func open(t *testing.T, m *Manifest, path string) *Client {
	t.Helper()
	c, err := Open(m, path)
	if err != nil {
		t.Fatal(err)
	}
	c.now = func() time.Time { return noon }
	return c
}

func stored(t *testing.T, path string) int {
	t.Helper()
	all, err := folder(path).waiting()
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestAManifestOfMoreEpsilonThanTheAppAllowsIsRefused(t *testing.T) {
	data, err := os.ReadFile("../vectors/ledger.json")
	if err != nil {
		t.Fatal(err)
	}
	_, manifest, _ := strings.Cut(string(data), `"manifest":`)
	start := []byte(manifest[:strings.Index(manifest, `"cases"`)])
	start = start[:strings.LastIndex(string(start), ",")]
	if _, err := Load(start, 0.75); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(start, 0.74); !errors.Is(err, ErrManifest) {
		t.Errorf("%v", err)
	}
}

func TestTheLedgerSurvivesARestart(t *testing.T) {
	path, m := filepath.Join(t.TempDir(), "device"), sample(t, 3, 1)
	for i := 0; i < 5; i++ {
		if err := open(t, m, path).Report(1, "DE"); (err == nil) != (i < 3) || (err != nil && !errors.Is(err, ErrBudget)) {
			t.Errorf("report %d: %v", i, err)
		}
	}
	if stored(t, path) != 3 {
		t.Errorf("%d messages", stored(t, path))
	}
	tomorrow := open(t, m, path)
	tomorrow.now = func() time.Time { return noon.Add(24 * time.Hour) }
	if err := tomorrow.Report(1, ""); err != nil {
		t.Error(err)
	}
	if err := open(t, m, path).Report(1, ""); !errors.Is(err, ErrBudget) {
		t.Errorf("the clock was set back by a day: %v", err)
	}
}

func TestABatchIsSpentAsAWhole(t *testing.T) {
	path, m := t.TempDir(), sample(t, 3, 1)
	c := open(t, m, path)
	if err := c.ReportBatch([]float64{1, 2, 3, 4}, ""); !errors.Is(err, ErrBudget) {
		t.Errorf("%v", err)
	}
	if err := c.ReportBatch([]float64{1, 2}, ""); err != nil {
		t.Error(err)
	}
	if err := c.ReportBatch([]float64{1, 2}, ""); !errors.Is(err, ErrBudget) {
		t.Errorf("%v", err)
	}
	if err := c.Report(1, ""); err != nil || stored(t, path) != 2 {
		t.Errorf("%v, %d messages", err, stored(t, path))
	}
}

func TestWhatCannotBeReportedCostsNothing(t *testing.T) {
	path := t.TempDir()
	c := open(t, sample(t, 1, 1), path)
	nan := 0.0
	nan /= nan
	for _, err := range []error{c.Report(nan, ""), c.Report(1, "FR"), c.ReportBatch(nil, ""), c.ReportBatch([]float64{1, nan}, "")} {
		if !errors.Is(err, ErrValue) {
			t.Errorf("%v", err)
		}
	}
	if err := c.Report(1, ""); err != nil {
		t.Error(err)
	}
}

func TestTheSlotIsKept(t *testing.T) {
	path, m := t.TempDir(), sample(t, 1, 24)
	hour := -1
	for day := 0; day < 3; day++ {
		for h := 0; h < 24; h++ {
			c := open(t, m, path)
			c.now = func() time.Time { return noon.Add(time.Duration(12+24*day+h) * time.Hour) }
			if c.Report(1, "") == nil {
				if hour >= 0 && hour != h {
					t.Fatalf("a report at %d o'clock after one at %d", h, hour)
				}
				hour = h
			}
		}
	}
	if stored(t, path) != 3 {
		t.Errorf("%d reports in three days", stored(t, path))
	}
}

// Storage that fails before the spending is on the disk: no report. The obstacles hold for root, too.
func TestStorageThatFailsMeansNoReport(t *testing.T) {
	for name, obstruct := range map[string]func(path string) error{
		"a full disk": func(path string) error { return os.Symlink("/dev/full", filepath.Join(path, "new")) },
		"nothing can be written": func(path string) error {
			return os.Mkdir(filepath.Join(path, "new"), 0o700)
		},
		"the ledger cannot be read": func(path string) error {
			return os.Mkdir(filepath.Join(path, "ledger"), 0o700)
		},
		"the lock cannot be taken": func(path string) error {
			return errors.Join(os.Remove(filepath.Join(path, "lock")), os.Mkdir(filepath.Join(path, "lock"), 0o700))
		},
		"the folder is gone": os.RemoveAll,
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			c := open(t, sample(t, 100, 1), path)
			unlock, err := c.folder.lock()
			if err != nil {
				t.Fatal(err)
			}
			unlock()
			if err := obstruct(path); err != nil {
				t.Skip(err)
			}
			if err := c.Report(1, ""); err == nil || errors.Is(err, ErrBudget) {
				t.Errorf("%v", err)
			}
			if all, _ := folder(path).waiting(); len(all) != 0 {
				t.Errorf("%d messages", len(all))
			}
		})
	}
}

func TestALedgerThatIsNotWhatWasWrittenMeansNoReport(t *testing.T) {
	path := t.TempDir()
	c := open(t, sample(t, 2, 1), path)
	if err := c.Report(1, ""); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(path, "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	for length := 0; length < len(written); length++ {
		damaged := append([]byte{}, written...)
		damaged[length] ^= 1
		for _, data := range [][]byte{written[:length], damaged} {
			os.WriteFile(filepath.Join(path, "ledger"), data, 0o600)
			if c.Report(1, "") == nil {
				t.Fatalf("a report with the ledger %q", data)
			}
		}
	}
	os.WriteFile(filepath.Join(path, "ledger"), written, 0o600)
	if err := c.Report(1, ""); err != nil {
		t.Error(err)
	}
}

// A message that cannot be stored costs its report, never a second one for free. The obstacle appears when the ledger
// is written: the name of the new file is then that of a folder.
func TestAMessageThatCannotBeStoredIsSpent(t *testing.T) {
	path := t.TempDir()
	c := open(t, sample(t, 2, 1), path)
	obstacle := filepath.Join(path, "new")
	for i := 0; i < 2; i++ {
		if err := c.folder.spend(c.manifest, noon.UnixMilli(), 1, &drawer{next: secureBelow}); err != nil {
			t.Fatal(err)
		}
		os.Mkdir(obstacle, 0o700)
		if err := c.folder.store([]byte("message"), [16]byte{}, 0); err == nil {
			t.Error("a message was stored in spite of the obstacle")
		}
		os.Remove(obstacle)
	}
	if err := c.Report(1, ""); !errors.Is(err, ErrBudget) || stored(t, path) != 0 {
		t.Errorf("%v", err)
	}
}

func TestAQueueThatCannotBeReadMeansNoReport(t *testing.T) {
	path := t.TempDir()
	c := open(t, sample(t, 2, 1), path)
	queue := filepath.Join(path, "queue")
	if err := errors.Join(os.Remove(queue), os.WriteFile(queue, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := c.Report(1, ""); err == nil || errors.Is(err, ErrBudget) {
		t.Errorf("%v", err)
	}
}

func TestAFullQueueIsRefusedBeforeAnythingIsSpent(t *testing.T) {
	path := t.TempDir()
	c := open(t, sample(t, 1, 1), path)
	for i := 0; i < longestQueue; i++ {
		name := filepath.Join(path, "queue", fmt.Sprintf("%019d-%032x", noon.UnixMilli(), i))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Report(1, ""); !errors.Is(err, ErrFull) {
		t.Errorf("%v", err)
	}
	all, _ := c.folder.waiting()
	os.Remove(all[0].path)
	if err := c.Report(1, ""); err != nil {
		t.Error(err)
	}
}

func TestGoroutinesSpendOneBudget(t *testing.T) {
	path, m := t.TempDir(), sample(t, 20, 1)
	clients := []*Client{open(t, m, path), open(t, m, path)}
	var all sync.WaitGroup
	for i := 0; i < 40; i++ {
		all.Add(1)
		go func(c *Client) {
			defer all.Done()
			if err := c.Report(1, ""); err != nil && !errors.Is(err, ErrBudget) {
				t.Error(err)
			}
		}(clients[i%2])
	}
	all.Wait()
	if stored(t, path) != 20 {
		t.Errorf("%d messages", stored(t, path))
	}
}

// A process of its own that reports until the budget is spent.
func TestMain(m *testing.M) {
	if path := os.Getenv("HUSHGRAM_SPEND"); path != "" {
		c := open(&testing.T{}, sample(&testing.T{}, 40, 1), path)
		for {
			if err := c.Report(1, ""); errors.Is(err, ErrBudget) {
				os.Exit(0)
			} else if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			fmt.Println("reported")
		}
	}
	os.Exit(m.Run())
}

func spender(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "HUSHGRAM_SPEND="+path)
	command.Stderr = os.Stderr
	return command
}

func TestTwoProcessesSpendOneBudget(t *testing.T) {
	path := t.TempDir()
	processes := []*exec.Cmd{spender(t, path), spender(t, path)}
	for _, process := range processes {
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, process := range processes {
		if err := process.Wait(); err != nil {
			t.Error(err)
		}
	}
	if stored(t, path) != 40 {
		t.Errorf("%d messages", stored(t, path))
	}
}

// A process that is killed in the middle of a report loses at most that one, and gives nothing back.
func TestProcessesThatAreKilledSpendOneBudget(t *testing.T) {
	path := t.TempDir()
	const kills = 5
	for i := 0; i < kills; i++ {
		process := spender(t, path)
		output, err := process.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		output.Read(make([]byte, 1)) // it has reported once
		process.Process.Kill()
		process.Wait()
	}
	if err := spender(t, path).Run(); err != nil {
		t.Fatal(err)
	}
	if found := stored(t, path); found > 40 || found < 40-kills {
		t.Errorf("%d messages", found)
	}
}
