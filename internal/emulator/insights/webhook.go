package insights

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"
)

// webhooks posts fired alerts. It does not use the emulator's lock.
type webhooks struct {
	client http.Client
	log    *slog.Logger
	ctx    context.Context
	stop   context.CancelFunc
	under  sync.WaitGroup

	mu     sync.Mutex
	silent map[string]time.Time // no calls to the address before this time
}

func newWebhooks(transport http.RoundTripper, log *slog.Logger) *webhooks {
	ctx, stop := context.WithCancel(context.Background())
	return &webhooks{client: http.Client{Transport: transport, Timeout: webhookTimeout}, log: log,
		ctx: ctx, stop: stop, silent: map[string]time.Time{}}
}

// How an action group calls a webhook (AZURE.md). Its timeout is not documented [U].
const (
	webhookSilence = 15 * time.Minute
	webhookTimeout = 10 * time.Second
)

var (
	webhookRetries = []time.Duration{5 * time.Second, 20 * time.Second, 5 * time.Second,
		40 * time.Second, 5 * time.Second}
	webhookAgain = []int{http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout}
)

// post sends a body without waiting for the answer. The caller must hold the emulator's lock. So
// must the caller of stop.
func (w *webhooks) post(uri, token string, body []byte) {
	if w.ctx.Err() != nil {
		return
	}
	w.under.Add(1)
	go func() {
		defer w.under.Done()
		w.deliver(uri, token, body)
	}()
}

func (w *webhooks) deliver(uri, token string, body []byte) {
	w.mu.Lock()
	silent := w.silent[uri].After(time.Now())
	w.mu.Unlock()
	if silent {
		w.log.Info("an alert is not sent: the webhook has failed lately", "webhook", uri)
		return
	}
	for try := 0; ; try++ {
		status, err := w.postOnce(uri, token, body)
		if err == nil && !slices.Contains(webhookAgain, status) {
			w.log.Info("an alert was sent", "webhook", uri, "status", status)
			return
		}
		if try == len(webhookRetries) {
			break
		}
		select {
		case <-w.ctx.Done():
			return
		case <-time.After(webhookRetries[try]):
		}
	}
	w.log.Warn("a webhook did not accept an alert; nothing is sent there for a while",
		"webhook", uri, "silence", webhookSilence)
	w.mu.Lock()
	w.silent[uri] = time.Now().Add(webhookSilence)
	w.mu.Unlock()
}

func (w *webhooks) postOnce(uri, token string, body []byte) (int, error) {
	r, err := http.NewRequestWithContext(w.ctx, http.MethodPost, uri, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := w.client.Do(r)
	if err != nil {
		return 0, err
	}
	// so that the connection can be used again
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20))
	return answer.StatusCode, answer.Body.Close()
}
