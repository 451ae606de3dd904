package cli

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/report"
)

// terminalLog is the log of a daemon for a person: the time, a sign, what happened, the cluster,
// and the rest in short form. Programs get everything, as JSON.
//
//	05:01:07 ✗ finding     shop  association-lost: node subnet has lost its route table
type terminalLog struct {
	w     io.Writer
	mu    *sync.Mutex
	style report.Style
	level slog.Level
	attrs []slog.Attr
}

func (h terminalLog) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h terminalLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)
	return h
}

// WithGroup ignores groups, because the program logs none.
func (h terminalLog) WithGroup(string) slog.Handler { return h }

func (h terminalLog) Handle(_ context.Context, r slog.Record) error {
	said := map[string]string{}
	var rest []string
	each := func(a slog.Attr) bool {
		value := a.Value.String()
		if id, err := arm.ParseID(value); err == nil {
			value = id.Short()
		}
		switch a.Key {
		case "cluster", "code", "message", "verb", "resource", "old", "new", "why", "state":
			said[a.Key] = value
		case "evidence", "advice", "fix", "route": // status and history show these
		default:
			if value != "" && value != "0" && value != "false" {
				rest = append(rest, a.Key+" "+value)
			}
		}
		return true
	}
	for _, a := range h.attrs {
		each(a)
	}
	r.Attrs(each)
	if said["new"] != "" {
		said["old"] = "" // a delete removes this value
	}
	if said["code"] != "" {
		said["resource"] = "" // the message names it
	}
	var text []string
	add := func(before, value, after string) {
		if value != "" {
			text = append(text, before+value+after)
		}
	}
	add("", said["code"], ":")
	add("", said["state"], ":")
	add("", said["message"], "")
	add("", said["verb"], "")
	add("", said["resource"], "")
	add("", said["old"], "")
	add("", said["new"], "")
	add("(", said["why"], ")")
	if len(text) > 0 {
		add("(", strings.Join(rest, ", "), ")")
	} else {
		add("", strings.Join(rest, ", "), "")
	}
	sign, paint := " ", func(text string) string { return text }
	switch {
	case r.Level >= slog.LevelError:
		sign, paint = "✗", h.style.Red
	case r.Level >= slog.LevelWarn:
		sign, paint = "!", h.style.Yellow
	}
	const whatWidth, clusterWidth = 10, 12 // the usual lengths
	line := h.style.Dim(r.Time.Format(time.TimeOnly)) + " " + paint(sign) + " " +
		paint(padded(r.Message, whatWidth)) + "  "
	if cluster := said["cluster"]; cluster != "" {
		line += padded(cluster, clusterWidth) + "  "
	}
	line = strings.TrimRight(line+report.Plain(strings.Join(text, " ")), " ") + "\n"
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := io.WriteString(h.w, line)
	return err
}

// padded returns text from outside on one line, filled up with spaces.
func padded(text string, width int) string {
	text = report.Plain(text)
	return text + strings.Repeat(" ", max(0, width-len([]rune(text))))
}
