package azure

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works. A document that cannot be decoded costs only itself: it is Unread, by its own ID,
// and the rest of its list is used. The resource exists, so it is never Absent. If a network cannot
// be decoded, usually one of its subnets is the cause. Then the network and this subnet are Unread,
// and the other subnets are used. Only if the document does not say which resource it is, the whole
// list is Unread.

// add adds a document to a snapshot, or notes why it is missing there.
func add(s *inventory.Snapshot, id arm.ID, raw []byte) {
	err := s.Add(raw)
	if err == nil {
		return
	}
	garbled(s, id, err)
	if !id.Is(arm.TypeVNet) {
		return
	}
	for _, one := range subnetsIn(id, raw) {
		if one.err != nil {
			garbled(s, one.id, one.err)
		} else {
			s.Subnets[one.id.Key()] = one.subnet
		}
	}
}

// addRead adds what was read to a snapshot, or notes why it is missing there.
func addRead(s *inventory.Snapshot) report {
	return func(_ wanted, id arm.ID, body []byte, fault *Error) {
		if fault != nil {
			unread(s, id, fault)
		} else {
			add(s, id, body)
		}
	}
}

// addListed works like add for a document of a list.
func addListed(s *inventory.Snapshot, list arm.ID, raw []byte) {
	id := idIn(raw)
	// the document is of the listed type
	if n := strings.LastIndexByte(id.Type(), '/'); n > 0 &&
		strings.HasSuffix(list.Key(), strings.ToLower(id.Type()[n:])) {
		add(s, id, raw)
	} else if err := s.Add(raw); err != nil {
		garbled(s, list, err)
	}
}

// oneSubnet is a subnet in the document of its network, or why it cannot be decoded.
type oneSubnet struct {
	id     arm.ID
	subnet *inventory.Subnet
	err    error
}

// subnetsIn decodes the subnets of a network one by one. It omits one whose ID is not of that
// network.
func subnetsIn(vnet arm.ID, raw []byte) []oneSubnet {
	properties := sole(gjson.ParseBytes(raw), "properties")
	subnets := sole(properties, "subnets")
	var out []oneSubnet
	tag := inventory.GuardPauseIn(raw)
	for _, item := range subnets.Array() {
		one := oneSubnet{id: idIn([]byte(item.Raw))}
		if !one.id.Is(arm.TypeSubnet) || !one.id.Parent().Equal(vnet) {
			continue
		}
		if one.subnet, one.err = inventory.DecodeSubnet([]byte(item.Raw)); one.err == nil {
			one.subnet.GuardPausedUntil = tag
		}
		out = append(out, one)
	}
	return out
}

// idIn returns the ID of a document, or "" if it has none or several.
func idIn(raw []byte) arm.ID {
	text := sole(gjson.ParseBytes(raw), "id")
	id, err := arm.ParseID(text.String())
	if err != nil || !json.Valid(raw) {
		return ""
	}
	return id
}

// sole returns the value of a key, in any case. It returns nothing if the object has the key twice.
func sole(o gjson.Result, key string) (value gjson.Result) {
	times := 0
	o.ForEach(func(k, v gjson.Result) bool {
		if strings.EqualFold(k.String(), key) {
			value, times = v, times+1
		}
		return true
	})
	if times != 1 {
		return gjson.Result{}
	}
	return value
}

// named says which document of a list cannot be decoded.
func named(raw []byte, err error) error {
	if id := idIn(raw); id != "" {
		return fmt.Errorf("%s: %w", id, err)
	}
	return err
}
