package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// daySecret is the secret of the senders of events.
const daySecret = "a-long-enough-secret"

// hostile is a caller who overhears alerts, knows the secret of the senders, and floods the
// listener: with forged, old and reordered events, with bodies that are too large or too deep, and
// with requests that it has no right to make. It has a random stream of its own, so that a seed
// means the same day with and without it.
type hostile struct {
	d     *day
	by    *rand.Rand
	acts  sync.WaitGroup
	calls atomic.Int64

	mu     sync.Mutex
	stolen [][]byte
}

// overhear keeps a copy of an alert.
func (h *hostile) overhear(r *http.Request) {
	body, err := r.GetBody()
	if err != nil {
		return
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.stolen) < 500 {
		h.stolen = append(h.stolen, raw)
	}
}

// storm begins a flood of some seconds, sometimes.
func (h *hostile) storm() {
	if h.by.IntN(4) > 0 {
		return
	}
	by := rand.New(rand.NewPCG(h.by.Uint64(), 0))
	flood := []func(*rand.Rand){h.replay, h.forge, h.burden, h.trespass}[by.IntN(4)]
	h.acts.Go(func() { flood(by) })
}

// call makes a call, and checks the status of its answer.
func (h *hostile) call(method, path, secret string, body []byte, want int) {
	h.calls.Add(1)
	r, err := http.NewRequest(method, "http://keeper"+path, bytes.NewReader(body))
	if err != nil {
		h.d.t.Error(err)
		return
	}
	r.Header.Set("Content-Type", "application/json")
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	answer, err := h.d.door().RoundTrip(r)
	if err != nil {
		if want != http.StatusRequestEntityTooLarge { // the connection may end before the body
			h.d.t.Errorf("%s %s: %v", method, path, err)
		}
		return
	}
	defer answer.Body.Close()
	if answer.StatusCode != want {
		h.d.t.Errorf("%s %s: %d, want %d", method, path, answer.StatusCode, want)
	}
}

// replay sends alerts that it has overheard, however old, in any order, 50 a second.
func (h *hostile) replay(by *rand.Rand) {
	h.mu.Lock()
	stolen := h.stolen
	h.mu.Unlock()
	for i := 0; i < 200 && len(stolen) > 0; i++ {
		h.call(http.MethodPost, "/events", daySecret, stolen[by.IntN(len(stolen))], http.StatusOK)
		time.Sleep(20 * time.Millisecond)
	}
}

// forge sends batches of events about everything that is kept, and about nothing.
func (h *hostile) forge(by *rand.Rand) {
	for range 20 {
		var batch []map[string]any
		for i := range 200 {
			subject := string(h.d.guarded[by.IntN(len(h.d.guarded))])
			if by.IntN(2) == 0 {
				subject = fmt.Sprintf("/subscriptions/%d/resourceGroups/\u202e<script>/providers/"+
					"Microsoft.Network/routeTables/%d", i, by.IntN(1000))
			}
			batch = append(batch, map[string]any{
				"eventType": "Microsoft.Resources.ResourceWriteSuccess", "subject": subject,
				"data": map[string]any{"resourceUri": subject, "correlationId": fmt.Sprint(i),
					"claims": map[string]any{"name": "\x1b]0;forged\a"}},
			})
		}
		raw, err := json.Marshal(batch)
		if err != nil {
			h.d.t.Error(err)
		}
		h.call(http.MethodPost, "/events/"+daySecret, "", raw, http.StatusOK)
		time.Sleep(100 * time.Millisecond)
	}
}

// burden sends bodies that are too large, too deep, or no events.
func (h *hostile) burden(by *rand.Rand) {
	large := bytes.Repeat([]byte(" "), largestBody+1)
	deep := []byte(strings.Repeat("[", 500_000))
	for range 5 + by.IntN(5) {
		h.call(http.MethodPost, "/events", daySecret, large, http.StatusRequestEntityTooLarge)
		h.call(http.MethodPost, "/events", daySecret, deep, http.StatusBadRequest)
		h.call(http.MethodPost, "/events", daySecret, []byte(`{"eventType": 7}`),
			http.StatusBadRequest)
	}
}

// trespass sends events with wrong secrets, and requests pages and changes that it may not.
func (h *hostile) trespass(by *rand.Rand) {
	for i := range 200 {
		wrong := fmt.Sprintf("%s%d", daySecret, by.IntN(1000))
		h.call(http.MethodPost, "/events/"+wrong, "", []byte(`{}`), http.StatusUnauthorized)
		method := []string{http.MethodGet, http.MethodPost}[i%2]
		path := []string{"/actions/sync", "/actions/repair", "/actions/look?cluster=shop"}[i%3]
		if method == http.MethodGet {
			path = []string{"/actions/sync.json", "/actions/repair", "/"}[i%3]
		}
		for _, secret := range []string{"", wrong, daySecret} {
			h.call(method, path, secret, nil, http.StatusUnauthorized)
		}
	}
}
