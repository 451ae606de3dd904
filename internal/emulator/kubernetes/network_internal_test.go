package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestBusyMachine: the time that the emulator needs to find a packet's way is no lost packet.
func TestBusyMachine(t *testing.T) {
	for _, c := range []struct {
		name string
		way  func() (string, error)
		want string
	}{
		{"slow", func() (string, error) { time.Sleep(time.Minute); return "", nil },
			`"result":"answered"`},
		{"dropped", func() (string, error) { time.Sleep(time.Minute); return "no route", nil },
			`"result":"timeout","millis":65000,"error":"no answer within 5s"`},
		{"unknown", func() (string, error) { return "", errors.New("not read") },
			`"result":"failed"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				way := func(context.Context, Packet) (string, error) { return c.way() }
				k := &cluster{k: &Kubernetes{o: Options{Way: way}}, pods: map[string]*pod{}}
				for name, addr := range map[string]string{"one": "10.0.0.1", "two": "10.0.0.2"} {
					p := &pod{addrs: []netip.Addr{netip.MustParseAddr(addr)}}
					if err := json.Unmarshal([]byte(`{"metadata": {"name": "`+name+`"},
						"spec": {"containers": [{"args": ["hello"]}]}}`), &p.podDocument); err != nil {
						t.Fatal(err)
					}
					k.setHandler(p)
					k.pods[name] = p
				}
				w := httptest.NewRecorder()
				k.pods["one"].handler.ServeHTTP(w,
					httptest.NewRequest(http.MethodGet, "/call?to=10.0.0.2", nil))
				if got := w.Body.String(); !strings.Contains(got, c.want) {
					t.Errorf("got %s, want %s", got, c.want)
				}
			})
		})
	}
}
