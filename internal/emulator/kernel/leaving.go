package kernel

import (
	"encoding/json"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// A deleted child of a network's resource has no effect any more, but a GET shows it as Deleting
// while the operation runs. Otherwise clients that poll the child, such as azurerm, would continue
// while its parent is still busy. No recording shows whether Azure does this.

// leaving has these children, by ID.Key().
type leaving map[string]leavingChild

type leavingChild struct {
	Doc  json.RawMessage `json:"doc"`
	Ends time.Time       `json:"ends"`
}

// at returns a child that is being deleted.
func (l leaving) at(id arm.ID) (leavingChild, bool) {
	g, known := l[id.Key()]
	return g, known && g.Ends.After(time.Now())
}

// add remembers a child that is deleted, with its last document.
func (l leaving) add(id arm.ID, doc Object, ends time.Time) {
	if !ofNetwork(id) || strings.Count(id.Type(), "/") < 2 || !ends.After(time.Now()) {
		return
	}
	for key, g := range l {
		if !g.Ends.After(time.Now()) {
			delete(l, key)
		}
	}
	if p := ObjectAt(doc, "properties"); p != nil {
		p["provisioningState"] = "Deleting"
	}
	l[id.Key()] = leavingChild{Encode(doc), ends}
}
