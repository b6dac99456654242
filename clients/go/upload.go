package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"
)

const (
	mediaType   = "application/vnd.hushgram.report"
	longestWait = 24 * time.Hour
	longestStep = time.Hour
)

// Sender sends the messages of a folder, always the same bytes, so that one that arrives twice counts once.
type Sender struct {
	folder folder
	url    string
	client http.Client
	now    func() time.Time
	pause  pause
}

// pause is when to send again, in milliseconds since 1970, after how many attempts that failed.
type pause struct {
	Until    int64 `json:"until"`
	Attempts int   `json:"attempts"`
}

// NewSender sends to a server, such as "https://reports.example.org". The HTTP client may be nil. Redirects are not
// followed, and cookies are neither kept nor sent: they would link the reports of a device.
func NewSender(path, server string, with *http.Client) (*Sender, error) {
	parsed, err := url.Parse(server)
	if err != nil || (parsed.Scheme != "https" && parsed.Scheme != "http") || parsed.Host == "" {
		return nil, fmt.Errorf("the server must be an address of https or http, not %q", server)
	}
	opened, err := openFolder(path)
	if err != nil {
		return nil, err
	}
	s := &Sender{folder: opened, url: parsed.JoinPath("/v1/reports").String(), now: time.Now}
	if with != nil {
		s.client = *with
	}
	if s.client.Timeout == 0 {
		s.client.Timeout = time.Minute
	}
	s.client.Jar = nil
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s, nil
}

// Send sends all messages that wait, and stops at the first that fails. Before the time that the server asked for, or
// while another process sends, it sends nothing. It tells how long to wait before the next call; 0 means that nothing
// hinders. A Sender is for one goroutine.
func (s *Sender) Send(ctx context.Context) (time.Duration, error) {
	unlock, err := lockFile(s.folder.path("sending"), false)
	if errors.Is(err, errHeld) {
		return time.Second, nil
	}
	if err != nil {
		return 0, err
	}
	defer unlock()
	all, err := s.folder.waiting()
	if err != nil {
		return 0, err
	}
	s.readPause()
	for _, one := range all {
		now := s.now().UnixMilli()
		if one.expires < now {
			if err := remove(one.path); err != nil {
				return 0, err
			}
			continue
		}
		if now < s.pause.Until {
			return time.Duration(s.pause.Until-now) * time.Millisecond, nil
		}
		message, err := os.ReadFile(one.path)
		if err != nil {
			return 0, err
		}
		settled, after, err := s.post(ctx, message)
		if !settled {
			return s.wait(after), err
		}
		s.pause = pause{}
		if err := errors.Join(remove(one.path), remove(s.folder.path("pause"))); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// post tells whether a message needs not be sent again, and if it must, when the server wants it.
func (s *Sender) post(ctx context.Context, message []byte) (settled bool, after time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(message))
	if err != nil {
		return false, 0, err
	}
	request.Header.Set("Content-Type", mediaType)
	response, err := s.client.Do(request)
	if err != nil {
		return false, 0, err
	}
	defer response.Body.Close()
	io.Copy(io.Discard, io.LimitReader(response.Body, 1<<16)) // so that the connection can be used again
	switch code := response.StatusCode; {
	case code/100 == 2, code == 400, code == 413, code == 415, code == 422:
		return true, 0, nil
	default:
		err := fmt.Errorf("the server answered %s", response.Status)
		return false, retryAfter(response.Header.Get("Retry-After"), s.now()), err
	}
}

// retryAfter reads seconds or a date; 0 is neither.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 63); err == nil {
		return time.Duration(min(seconds, uint64(longestWait/time.Second))) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(0, min(date.Sub(now), longestWait))
	}
	return 0
}

// wait keeps the pause across restarts. Where it cannot, this process knows it still.
func (s *Sender) wait(after time.Duration) time.Duration {
	if after == 0 {
		after = backoff(s.pause.Attempts)
	}
	s.pause = pause{s.now().Add(after).UnixMilli(), s.pause.Attempts + 1}
	if data, err := json.Marshal(s.pause); err == nil {
		_ = replaceFile(s.folder.path("pause.new"), s.folder.path("pause"), data)
	}
	return after
}

// backoff is a random time whose mean doubles with every attempt, so that devices do not come back all at once.
func backoff(attempts int) time.Duration {
	step := min(time.Second<<min(attempts, 12), longestStep)
	random, err := secureBelow(int64(step))
	if err != nil {
		return step
	}
	return step/2 + time.Duration(random)/2
}

// readPause takes the later of what this process and the folder know. A clock that was set back must not stop it for long.
func (s *Sender) readPause() {
	var kept pause
	data, err := os.ReadFile(s.folder.path("pause"))
	if err == nil && json.Unmarshal(data, &kept) == nil && kept.Attempts >= 0 && kept.Until > s.pause.Until {
		s.pause = kept
	}
	s.pause.Until = min(s.pause.Until, s.now().Add(longestWait).UnixMilli())
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
