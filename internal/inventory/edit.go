package inventory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// SetRoutes returns a copy of a route table's document with the given routes, each as its Raw,
// or new.
// Every other byte is unchanged.
//
// It refuses a document without a list of routes: a PUT would delete the routes that the document
// does not show. Azure always returns the list, even for an empty table.
func SetRoutes(table []byte, routes []Route) ([]byte, error) {
	if !gjson.GetBytes(table, "properties.routes").IsArray() {
		return nil, errors.New("the document of the table cannot be edited safely: it lists no " +
			"routes")
	}
	var list bytes.Buffer
	list.WriteByte('[')
	for i, r := range routes {
		if i > 0 {
			list.WriteByte(',')
		}
		list.Write(r.document())
	}
	list.WriteByte(']')
	out, err := sjson.SetRawBytes(table, "properties.routes", list.Bytes())
	if err != nil {
		return nil, fmt.Errorf("setting properties.routes: %w", err)
	}
	t, err := DecodeRouteTable(out)
	if err != nil {
		return nil, err
	}
	if !slices.EqualFunc(t.routes, routes, Route.sameFields) {
		return nil, fmt.Errorf("the document of %s cannot be edited safely: its routes read "+
			"differently after the change", t.ID)
	}
	return out, nil
}

// sameFields reports whether two routes agree in all fields that this program reads.
func (r Route) sameFields(other Route) bool {
	return r.Name == other.Name && r.Prefix == other.Prefix && r.Tag == other.Tag &&
		r.SameHop(other)
}

// NewRoute returns a route to an appliance address, without Raw. SetRoutes writes it in the form of
// the cloud provider.
func NewRoute(name string, prefix netip.Prefix, hop netip.Addr) Route {
	return Route{Name: name, Prefix: prefix, HopType: HopAppliance, Hop: hop}
}

// document returns Raw, or writes a new route.
func (r Route) document() json.RawMessage {
	if r.Raw != nil {
		return r.Raw
	}
	var doc struct {
		Name       string `json:"name"`
		Properties struct {
			AddressPrefix    string `json:"addressPrefix"`
			NextHopType      string `json:"nextHopType"`
			NextHopIPAddress string `json:"nextHopIpAddress,omitempty"`
		} `json:"properties"`
	}
	doc.Name = r.Name
	doc.Properties.AddressPrefix = r.Prefix.String()
	doc.Properties.NextHopType = r.HopType
	if r.Hop.IsValid() {
		doc.Properties.NextHopIPAddress = r.Hop.String()
	}
	raw, _ := json.Marshal(doc) // strings always marshal
	return raw
}

// With returns a copy of the route with another prefix and next hop address. All other bytes are
// unchanged.
func (r Route) With(prefix netip.Prefix, hop netip.Addr) (Route, error) {
	return r.Leading(NewRoute(r.Name, prefix, hop))
}

// Leading returns a copy of the route with the prefix and the next hop of another one. All other
// bytes are unchanged. The copy has an address only if its type of next hop has one.
func (r Route) Leading(as Route) (Route, error) {
	at := ""
	raw := []byte(r.document())
	if gjson.GetBytes(raw, "properties").IsObject() {
		at = "properties."
	}
	for _, change := range []struct {
		field, old, new string
	}{
		{"addressPrefix", r.Prefix.String(), as.Prefix.String()},
		{"nextHopType", r.HopType, as.HopType},
		{"nextHopIpAddress", r.Hop.String(), as.Hop.String()},
	} {
		if change.old == change.new {
			continue
		}
		var err error
		if change.field == "nextHopIpAddress" && !as.Hop.IsValid() {
			raw, err = sjson.DeleteBytes(raw, at+change.field)
		} else {
			raw, err = sjson.SetBytes(raw, at+change.field, change.new)
		}
		if err != nil {
			return Route{}, fmt.Errorf("route %s: setting %s: %w", r.Name, change.field, err)
		}
	}
	changed, err := DecodeRoute(raw)
	if err != nil {
		return Route{}, fmt.Errorf("route %s: %w", r.Name, err)
	}
	if want := (Route{Name: r.Name, Prefix: as.Prefix, HopType: as.HopType,
		Hop: as.Hop}); !changed.sameFields(want) {
		return Route{}, fmt.Errorf("the route %s cannot be edited safely: it reads differently "+
			"after the change", r.Name)
	}
	return changed, nil
}
