package keeper

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
)

// spoil changes the answer to a GET: its path, its status and its body.
type spoil func(path string, body []byte) (status int, spoiled []byte)

// spoiling is a connection to Azure through a proxy that spoils answers while by holds a function.
// It does not change ETags.
func spoiling(next http.RoundTripper, by *atomic.Pointer[spoil]) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		do := by.Load()
		if err != nil || do == nil || r.Method != http.MethodGet ||
			response.StatusCode != http.StatusOK {
			return response, err
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return nil, err
		}
		response.StatusCode, body = (*do)(r.URL.Path, body)
		response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)),
			int64(len(body))
		return response, nil
	})
}

// documents applies a change to each resource of a type in an answer: a single one, one in a list,
// or one inside a virtual network.
func documents(kind string, change func(doc object)) spoil {
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, one := range v {
				walk(one)
			}
		case object:
			id, _ := v["id"].(string)
			parts := strings.Split(strings.ToLower(id), "/")
			if _, whole := v["properties"]; whole && len(parts) > 2 && parts[len(parts)-2] == kind {
				change(v)
				return
			}
			for _, one := range v {
				walk(one)
			}
		}
	}
	return func(_ string, body []byte) (int, []byte) {
		var doc any
		if json.Unmarshal(body, &doc) != nil {
			return http.StatusOK, body
		}
		walk(doc)
		spoiled, err := json.Marshal(doc)
		if err != nil {
			panic(err)
		}
		return http.StatusOK, spoiled
	}
}

// ofTable applies a change to the properties of the route table with a name.
func ofTable(name string, change func(properties object, doc object)) spoil {
	return documents("routetables", func(doc object) {
		if doc["name"] == name {
			change(doc["properties"].(object), doc)
		}
	})
}

// TestSpoiledAnswers: something between keeper and Azure spoils answers for a minute. Nothing is
// written meanwhile, so no route and no association is lost, and afterwards everything continues.
func TestSpoiledAnswers(t *testing.T) {
	t.Parallel()
	withoutRoutes := func(p, _ object) { delete(p, "routes") }
	noRoutes := func(p, _ object) { p["routes"] = nil }
	noProperties := func(_, doc object) { delete(doc, "properties") }
	half := func(p, _ object) { p["routes"] = p["routes"].([]any)[:2] }
	answer := func(text string) spoil {
		return func(string, []byte) (int, []byte) { return http.StatusOK, []byte(text) }
	}
	notFound := func(what string) spoil {
		return func(path string, body []byte) (int, []byte) {
			if strings.Contains(path, what) {
				return http.StatusNotFound,
					[]byte(`{"error":{"code":"ResourceNotFound","message":"no"}}`)
			}
			return http.StatusOK, body
		}
	}
	for name, do := range map[string]spoil{
		"the cluster's table without routes":     ofTable("shop-rt", withoutRoutes),
		"the cluster's table with null":          ofTable("shop-rt", noRoutes),
		"the cluster's table without properties": ofTable("shop-rt", noProperties),
		"the cluster's table without hops": ofTable("shop-rt", func(p, _ object) {
			for _, r := range p["routes"].([]any) {
				delete(r.(object)["properties"].(object), "nextHopIpAddress")
			}
		}),
		"half of the cluster's table":   ofTable("shop-rt", half),
		"the target without routes":     ofTable("appgw-rt", withoutRoutes),
		"the target with null":          ofTable("appgw-rt", noRoutes),
		"the target without properties": ofTable("appgw-rt", noProperties),
		"subnets without prefixes": documents("subnets", func(doc object) {
			delete(doc["properties"].(object), "addressPrefix")
		}),
		"subnets without properties": documents("subnets", func(doc object) {
			noProperties(nil, doc)
		}),
		"a page of a proxy": answer("<html>login</html>"),
		"half an answer": func(_ string, body []byte) (int, []byte) {
			return 200, body[:len(body)/2]
		},
		"{}": answer("{}"),
		"empty lists": func(path string, body []byte) (int, []byte) {
			if strings.HasSuffix(path, "s") {
				return 200, []byte(`{"value":[]}`)
			}
			return 200, body
		},
		"404 of tables":   notFound("routeTables"),
		"404 of networks": notFound("virtualNetworks"),
		"404 of clusters": notFound("managedClusters"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				w.addRoutes(w.demo.GatewayTable, "theirs 172.16.0.0/24 10.98.0.4",
					"more 172.16.1.0/24 10.98.0.4")
				var now atomic.Pointer[spoil]
				way := spoiling(emulatortest.Transport(t, w.e), &now)
				k := w.runOver(emulatortest.ClientOver(t, way, w.e, emulatortest.Keeper),
					Options{ClusterInterval: 20 * time.Second}, 10*time.Second, w.demoConfig())
				k.since(2 * time.Minute)
				before := w.routes(w.demo.GatewayTable)
				if len(before) != 6 {
					t.Fatalf("the target holds %v", before)
				}
				since := w.mark()
				now.Store(&do)
				k.since(time.Minute)
				now.Store(nil)
				w.expectRoutes(w.demo.GatewayTable, before...)
				k.since(3 * time.Minute)
				if r := k.since(20 * time.Second); len(r) == 0 || len(r[len(r)-1].Findings) > 0 {
					t.Errorf("afterwards: %+v", r)
				}
				w.expectRoutes(w.demo.GatewayTable, before...)
				w.repaired("afterwards", k, 0)
				for _, r := range since() {
					if r.Method != http.MethodGet {
						t.Errorf("%s %s by a spoiled answer: %s", r.Method, r.Path, r.Body)
					}
				}
			})
		})
	}
}
