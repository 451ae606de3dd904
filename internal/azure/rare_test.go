package azure

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRare: an outage of many calls is a line a minute, with their number.
func TestRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		var r rare
		for i := range 120 {
			level := slog.LevelInfo
			if i == 10 {
				level = slog.LevelWarn
			}
			r.log(t.Context(), log, level, "no answer", "call", i)
			time.Sleep(time.Second)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		want := []string{"call=0", "level=WARN msg=\"no answer\" call=10 others=9",
			"call=70 others=59"}
		if len(lines) != len(want) {
			t.Fatalf("%s", out.String())
		}
		for i, line := range lines {
			if !strings.HasSuffix(line, want[i]) {
				t.Errorf("%s, want %s", line, want[i])
			}
		}
	})
}
