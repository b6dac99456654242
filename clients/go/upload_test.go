package client

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// server answers with the next of its codes, then with 202, and keeps what it was sent.
type server struct {
	*httptest.Server
	codes    []int
	after    string
	received []string
	paths    []string
	types    []string
}

func serve(t *testing.T, codes ...int) *server {
	s := &server{codes: codes}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.received = append(s.received, hex.EncodeToString(body))
		s.paths = append(s.paths, r.Method+" "+r.URL.Path)
		s.types = append(s.types, r.Header.Get("Content-Type"))
		code := 202
		if len(s.codes) > 0 {
			code, s.codes = s.codes[0], s.codes[1:]
		}
		if s.after != "" {
			w.Header().Set("Retry-After", s.after)
		}
		w.Header().Set("Set-Cookie", "device=1")
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(code)
	}))
	t.Cleanup(s.Close)
	return s
}

func sender(t *testing.T, path string, to *server, now time.Time) *Sender {
	t.Helper()
	s, err := NewSender(path, to.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.now = func() time.Time { return now }
	return s
}

func reported(t *testing.T, reports int) string {
	t.Helper()
	path := t.TempDir()
	c := open(t, sample(t, reports, 1), path)
	for i := 0; i < reports; i++ {
		if err := c.Report(float64(i), "DE"); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestMessagesAreSentOnceAndDeleted(t *testing.T) {
	path, to := reported(t, 3), serve(t, 200, 204, 202)
	for i := 0; i < 2; i++ {
		if wait, err := sender(t, path, to, noon).Send(context.Background()); wait != 0 || err != nil {
			t.Errorf("%v, %v", wait, err)
		}
	}
	if len(to.received) != 3 || stored(t, path) != 0 {
		t.Errorf("%d received, %d stored", len(to.received), stored(t, path))
	}
	if to.paths[0] != "POST /v1/reports" || to.types[0] != "application/vnd.hushgram.report" {
		t.Errorf("%v %v", to.paths, to.types)
	}
	ids := map[string]bool{}
	for _, message := range to.received {
		ids[message[len(message)-32:]] = true
	}
	if len(ids) != 3 {
		t.Errorf("ids %v", ids)
	}
}

func TestMessagesThatWillNeverBeTakenAreDeleted(t *testing.T) {
	path, to := reported(t, 4), serve(t, 400, 413, 415, 422)
	if _, err := sender(t, path, to, noon).Send(context.Background()); err != nil || stored(t, path) != 0 || len(to.received) != 4 {
		t.Errorf("%v, %d received, %d stored", err, len(to.received), stored(t, path))
	}
}

// Each other answer keeps the message; a redirect is one of them, and is not followed. After a restart the same bytes
// are sent again, but not before it is time.
func TestOtherAnswersKeepTheMessage(t *testing.T) {
	for _, code := range []int{301, 302, 303, 307, 308, 401, 404, 409, 429, 500, 503} {
		path, to := reported(t, 2), serve(t, code)
		to.after = "120"
		wait, err := sender(t, path, to, noon).Send(context.Background())
		if wait != 2*time.Minute || err == nil || len(to.received) != 1 || to.paths[0] != "POST /v1/reports" {
			t.Errorf("%d: %v, %v, %v", code, wait, err, to.paths)
		}
		if wait, err := sender(t, path, to, noon.Add(time.Minute)).Send(context.Background()); wait != time.Minute || err != nil || len(to.received) != 1 {
			t.Errorf("%d: %v, %v, %d received too early", code, wait, err, len(to.received))
		}
		if _, err := sender(t, path, to, noon.Add(2*time.Minute)).Send(context.Background()); err != nil || stored(t, path) != 0 {
			t.Errorf("%d: %v", code, err)
		}
		if len(to.received) != 3 || to.received[0] != to.received[1] {
			t.Errorf("%d: %v", code, to.received)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for text, expected := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "-7": 0, "x": 0, "99999999": longestWait, "9223372036854775807": longestWait,
		noon.Add(time.Hour).UTC().Format(http.TimeFormat):            time.Hour,
		noon.Add(-time.Hour).UTC().Format(http.TimeFormat):           0,
		noon.Add(900 * 24 * time.Hour).UTC().Format(http.TimeFormat): longestWait,
	} {
		if found := retryAfter(text, noon); found != expected {
			t.Errorf("%q: %v", text, found)
		}
	}
}

func TestWithoutRetryAfterTheWaitDoublesUpToAnHour(t *testing.T) {
	path, to := reported(t, 1), serve(t)
	to.Close() // there is no answer at all
	at := noon
	for attempt := 0; attempt < 20; attempt++ {
		wait, err := sender(t, path, to, at).Send(context.Background())
		step := min(time.Second<<attempt, time.Hour)
		if err == nil || wait < step/2 || wait > step {
			t.Fatalf("attempt %d: %v, %v", attempt, wait, err)
		}
		at = at.Add(wait)
	}
	if stored(t, path) != 1 {
		t.Errorf("%d stored", stored(t, path))
	}
}

func TestAClockThatIsSetBackDoesNotStopSendingForLong(t *testing.T) {
	path, to := reported(t, 1), serve(t, 503)
	to.after = "60"
	if _, err := sender(t, path, to, noon).Send(context.Background()); err == nil {
		t.Fatal("no error")
	}
	if wait, err := sender(t, path, to, noon.Add(-1000*time.Hour)).Send(context.Background()); err != nil || wait > longestWait {
		t.Errorf("%v, %v", wait, err)
	}
}

func TestMessagesThatAreTooOldAreDeleted(t *testing.T) {
	path, to := reported(t, 2), serve(t)
	if _, err := sender(t, path, to, noon.Add(24*time.Hour+time.Millisecond)).Send(context.Background()); err != nil {
		t.Error(err)
	}
	if len(to.received) != 0 || stored(t, path) != 0 {
		t.Errorf("%d received, %d stored", len(to.received), stored(t, path))
	}
}

func TestOneProcessSendsAtATime(t *testing.T) {
	path, to := reported(t, 1), serve(t)
	unlock, err := lockFile(filepath.Join(path, "sending"), false)
	if err != nil {
		t.Fatal(err)
	}
	if wait, err := sender(t, path, to, noon).Send(context.Background()); wait == 0 || err != nil || len(to.received) != 0 {
		t.Errorf("%v, %v, %d received", wait, err, len(to.received))
	}
	unlock()
	if _, err := sender(t, path, to, noon).Send(context.Background()); err != nil || len(to.received) != 1 {
		t.Errorf("%v, %d received", err, len(to.received))
	}
}

func TestOtherFilesInTheQueueAreLeftAlone(t *testing.T) {
	path, to := t.TempDir(), serve(t)
	s := sender(t, path, to, noon)
	other := filepath.Join(path, "queue", "notes.txt")
	if err := os.WriteFile(other, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Send(context.Background()); err != nil || len(to.received) != 0 {
		t.Errorf("%v, %d received", err, len(to.received))
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

func TestAnAddressThatIsNoneIsRefused(t *testing.T) {
	for _, address := range []string{"", "reports.example.org", "ftp://example.org", "http://", "://"} {
		if _, err := NewSender(t.TempDir(), address, nil); err == nil {
			t.Errorf("%q was taken", address)
		}
	}
}
