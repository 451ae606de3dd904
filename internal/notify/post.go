package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// Libraries for chats do not fit here. They put the URL, which is a secret, into their errors. They
// accept no context, and know only the connectors of Teams, which Microsoft has retired.

const (
	// postFor limits one request.
	postFor = 10 * time.Second
	// mostWait limits the wait that a destination can ask for with Retry-After.
	mostWait = 30 * time.Second
)

// NewClient returns a client that follows no redirects: the URL is a secret of one host.
func NewClient() *http.Client {
	return &http.Client{Timeout: postFor,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}
}

// refusal is an answer that is no success.
type refusal struct {
	status    int
	code      string        // the destination's own name for it, or ""
	temporary bool          // it may pass
	wait      time.Duration // the wait that the destination asks for
}

func (r *refusal) Error() string {
	text := fmt.Sprintf("it answers %d %s", r.status, http.StatusText(r.status))
	if r.code != "" {
		text += " (" + r.code + ")"
	}
	return text
}

// errHangs is the error of a destination that does not answer, or does not even accept a
// connection.
var errHangs = fmt.Errorf("it does not answer within %s", postFor)

func retryAfter(err error) time.Duration {
	if refused, ok := errors.AsType[*refusal](err); ok {
		return refused.wait
	}
	return 0
}

// ownCode is a short code in an answer, such as Slack's no_service. Other answers are not quoted:
// they could repeat the URL.
var ownCode = lazy.Regexp(`^[a-z]{1,20}(_[a-z]{1,20}){1,4}$`)

// Try sends a test message to a destination, once. The error says what happened, without the URL.
func (n *Notifier) Try(ctx context.Context, p v1alpha1.Place, page string) error {
	e := Event{Kind: Test, At: time.Now(), Text: "this place gets word of errors and repairs"}
	return n.post(ctx, p, compose([]Event{e}, 0, page))
}

// post sends a message to a destination. Its errors do not contain the URL.
func (n *Notifier) post(ctx context.Context, p v1alpha1.Place, m Message) error {
	at, err := n.address(p)
	if err != nil {
		return err
	}
	raw, err := body(p.Type, m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, postFor)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(),
		bytes.NewReader(raw))
	if err != nil {
		return errors.New(Where(p) + " holds no valid URL")
	}
	request.Header.Set("Content-Type", "application/json; charset=utf-8")
	request.Header.Set("User-Agent", "routekeeper")
	response, err := n.opts.Client.Do(request)
	if err != nil {
		return withoutURL(err, at)
	}
	defer response.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // only for the code in it
	if response.StatusCode/100 == 2 {
		return nil
	}
	r := &refusal{status: response.StatusCode, temporary: response.StatusCode >= 500 ||
		response.StatusCode == http.StatusTooManyRequests ||
		response.StatusCode == http.StatusRequestTimeout}
	if code := strings.TrimSpace(string(answer)); ownCode().MatchString(code) {
		r.code = code
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		r.wait = min(time.Duration(min(seconds, 3600))*time.Second, mostWait)
	}
	return r
}

// address reads and checks the URL of a destination. The error does not contain it.
func (n *Notifier) address(p v1alpha1.Place) (*url.URL, error) {
	text, err := n.opts.Secret(p)
	if err != nil {
		return nil, err
	}
	where := Where(p)
	at, err := url.Parse(strings.TrimSpace(text))
	switch {
	case strings.TrimSpace(text) == "":
		return nil, errors.New(where + " is empty, expected a URL")
	case err != nil || at.Hostname() == "" || at.Scheme != "https" && at.Scheme != "http":
		return nil, errors.New(where + " holds no URL, expected one such as https://HOST/PATH")
	case at.Scheme == "http" && p.Type != v1alpha1.PlaceWebhook && !loopback(at.Hostname()):
		return nil, errors.New(where + " holds an http URL, expected https")
	}
	return at, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// withoutURL says why a request failed, without the URL.
func withoutURL(err error, at *url.URL) error {
	if request, ok := errors.AsType[*url.Error](err); ok {
		if request.Timeout() {
			return errHangs
		}
		err = request.Err
	}
	if resolve, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New("its host cannot be resolved: " + resolve.Err)
	}
	text := err.Error()
	for _, secret := range []string{at.String(), at.RequestURI(), at.Path, at.RawQuery} {
		if len(secret) > 1 {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	return errors.New(text)
}
