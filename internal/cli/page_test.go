package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptFetch gets a page until its status and text fit: fetch URL STATUS [PATTERN].
func scriptFetch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: fetch URL STATUS [PATTERN]")
	}
	pattern := regexp.MustCompile("(?s)" + strings.Join(args[2:], " "))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		got := "no answer"
		if response, err := http.Get(args[0]); err == nil {
			body, err := io.ReadAll(response.Body)
			ts.Check(err)
			response.Body.Close()
			if got = fmt.Sprint(response.StatusCode, " ",
				string(body)); fmt.Sprint(response.StatusCode) == args[1] && pattern.Match(body) {
				_, err := ts.Stdout().Write(body)
				ts.Check(err)
				return
			}
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s: still after a minute: %s", args[0], got)
		}
	}
}

// scriptPress presses a button of a page: press FORM URL.
func scriptPress(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: press FORM URL")
	}
	response, err := http.Post(args[1], "application/x-www-form-urlencoded",
		strings.NewReader(args[0]))
	ts.Check(err)
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		ts.Fatalf("%s: %s", args[1], response.Status)
	}
}

// scriptConfirm confirms an action as its preview shows it: confirm URL CLUSTER PATTERN.
func scriptConfirm(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: confirm URL CLUSTER PATTERN")
	}
	response, err := http.Get(args[0] + ".json?cluster=" + args[1])
	ts.Check(err)
	var preview struct{ Confirm string }
	ts.Check(json.NewDecoder(response.Body).Decode(&preview))
	response.Body.Close()
	response, err = http.PostForm(args[0],
		url.Values{"cluster": {args[1]}, "confirm": {preview.Confirm}})
	ts.Check(err)
	body, err := io.ReadAll(response.Body)
	ts.Check(err)
	response.Body.Close()
	if !regexp.MustCompile(args[2]).Match(body) {
		ts.Fatalf("%s: %s", response.Status, body)
	}
}
