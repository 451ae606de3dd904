package clients

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// rest is a client without a library, for the calls of programs that cannot run here.
type rest struct {
	*azure
	endpoint, token string
	header          http.Header // of the last answer
}

// send makes one call and returns the status and the answer; headers are name and value. If the
// resource is busy, it waits as long as asked, like the clients that it simulates.
func (c *rest) send(method, id, version, body string, headers ...string) (int, gjson.Result) {
	c.Helper()
	separator := "?"
	if strings.Contains(id, "?") {
		separator = "&"
	}
	request, err := http.NewRequestWithContext(c.ctx, method, c.endpoint+id+separator+
		"api-version="+version, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json; charset=utf-8")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := c.http.Do(request)
	if err != nil {
		c.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		c.Fatal(err)
	}
	if wait, err := strconv.Atoi(
		answer.Header.Get("Retry-After")); answer.StatusCode == http.StatusTooManyRequests &&
		err == nil {
		time.Sleep(time.Duration(wait) * time.Second)
		return c.send(method, id, version, body, headers...)
	}
	c.header = answer.Header
	return answer.StatusCode, gjson.ParseBytes(raw)
}

// expect checks fields of an answer; "*" is any non-empty value.
func (c *rest) expect(doc gjson.Result, fields ...string) {
	c.Helper()
	for i := 0; i < len(fields); i += 2 {
		got := doc.Get(fields[i]).String()
		if want := fields[i+1]; got != want && (want != "*" || got == "") {
			c.Errorf("%s of %s is %q, want %q", fields[i], doc.Get("id"), got, want)
		}
	}
}
