package demo

import (
	"encoding/json"
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// version returns the api-version with which scenes read and write a resource.
func version(id arm.ID) string {
	if strings.Contains(id.Key(), "/microsoft.containerservice/") {
		return "2025-10-01"
	}
	return "2025-05-01"
}

// get reads a resource.
func (s *stage) get(id arm.ID) (map[string]any, error) { return s.azure.Get(id, version(id)) }

// put writes a resource as a template does.
func (s *stage) put(id arm.ID, doc map[string]any) error {
	return s.azure.Put(id, version(id), doc)
}

// table is a route table: its routes by name, each as JSON text without the fields that Azure
// changes.
type table struct {
	doc    map[string]any
	routes map[string]route
}

type route struct {
	name, prefix, hop string
	text              string
}

func (s *stage) table(id arm.ID) (table, error) {
	t := table{routes: map[string]route{}}
	var err error
	if t.doc, err = s.get(id); err != nil {
		return t, err
	}
	properties, _ := t.doc["properties"].(map[string]any)
	list, _ := properties["routes"].([]any)
	for _, item := range list {
		doc, _ := item.(map[string]any)
		p, _ := doc["properties"].(map[string]any)
		r := route{name: fmt.Sprint(doc["name"]), prefix: fmt.Sprint(p["addressPrefix"]),
			hop: fmt.Sprint(p["nextHopType"])}
		if hop, ok := p["nextHopIpAddress"].(string); ok {
			r.hop = hop
		}
		delete(doc, "etag")
		delete(p, "provisioningState")
		raw, err := json.Marshal(doc)
		if err != nil {
			return t, err
		}
		r.text = string(raw)
		t.routes[r.name] = r
	}
	return t, nil
}

// pods returns the table's pod routes, keyed by prefix. The demo's addresses show which routes
// these are.
func (t table) pods() map[string]route {
	pods := map[string]route{}
	for name, r := range t.routes {
		if t.isPod(name) {
			pods[r.prefix] = r
		}
	}
	return pods
}

func (t table) isPod(name string) bool {
	r := t.routes[name]
	return strings.HasPrefix(r.prefix, "10.244.") && strings.HasSuffix(r.prefix, ".0/24") &&
		strings.HasPrefix(r.hop, "10.42.1.")
}

// otherRoutes returns the text of all other routes by name.
func (t table) otherRoutes() map[string]string {
	rest := map[string]string{}
	for _, r := range t.routes {
		if !t.isPod(r.name) {
			rest[r.name] = r.text
		}
	}
	return rest
}
