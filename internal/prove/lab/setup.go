package lab

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
)

// groupPrefix is the prefix of the names of throwaway groups. Tag is on each of them, with the
// group's name as its value: a tag that was copied to another group does not match. The other tags
// say who made the group, and when it is certainly left over.
const (
	groupPrefix = "routekeeper-prove-"
	Tag         = "routekeeper-prove"
	byTag       = "routekeeper-prove-by"
	untilTag    = "routekeeper-prove-until"
)

// The names of the resources.
const (
	tableName, largeName = "routes", "large"
	filterName           = "filter"
	networkName          = "network"
	nodesName, spareName = "nodes", "spare"
	interfaceName        = "probe"
)

type object = map[string]any

func (l *lab) of(resourceType, name string) arm.ID {
	return arm.ResourceID(l.group.Subscription(), l.group.Name(), resourceType, name)
}

func (l *lab) table() arm.ID   { return l.of(arm.TypeRouteTable, tableName) }
func (l *lab) large() arm.ID   { return l.of(arm.TypeRouteTable, largeName) }
func (l *lab) filter() arm.ID  { return l.of(arm.TypeSecurityGroup, filterName) }
func (l *lab) network() arm.ID { return l.of(arm.TypeVNet, networkName) }
func (l *lab) nodes() arm.ID   { return l.network().Child("subnets", nodesName) }
func (l *lab) spare() arm.ID   { return l.network().Child("subnets", spareName) }
func (l *lab) probe() arm.ID   { return l.of(arm.TypeInterface, interfaceName) }

// setUp makes the group and its resources.
func (t *trial) setUp() {
	t.makeGroup()
	for _, r := range []struct {
		id         arm.ID
		properties object
	}{
		{t.filter(), object{}},
		{t.table(), object{"routes": routes(5)}},
		{t.large(), object{"routes": routes(2)}},
		{t.network(), object{
			"addressSpace": object{"addressPrefixes": []any{"10.213.0.0/16"}},
			"subnets": []any{
				object{"name": nodesName, "properties": object{
					"addressPrefix": "10.213.0.0/24", "routeTable": arm.Link(t.table()),
					"networkSecurityGroup": arm.Link(t.filter()),
					"serviceEndpoints":     []any{object{"service": "Microsoft.Storage"}},
				}},
				object{"name": spareName, "properties": object{"addressPrefix": "10.213.1.0/24"}},
			},
		}},
	} {
		t.write(r.id, encode(object{"location": t.Location, "properties": r.properties}))
	}
}

// makeGroup makes a group with a name that no group has. Azure must answer that it was created:
// this run must not delete a group that existed before.
func (t *trial) makeGroup() {
	for try := 1; t.err == nil; try++ {
		group := arm.GroupID(t.Subscription, groupPrefix+random())
		reply := t.send(azure.Request{Method: http.MethodGet,
			Address: address(group, "", groupVersion)})
		switch {
		case t.err != nil:
			return
		case reply.Status == http.StatusOK && try < tries:
			continue
		case reply.Status != http.StatusNotFound:
			t.err = fmt.Errorf("the group %s may exist already: Azure answered %d",
				group.Name(), reply.Status)
			return
		}
		until := time.Now().Add(Most(t.Trials, t.LogWait)).UTC().Format(time.RFC3339)
		t.group = group
		reply = t.put(group, encode(object{"location": t.Location, "tags": object{
			Tag: group.Name(), byTag: t.Process.Self, untilTag: until}}), "")
		switch {
		case t.err != nil:
			t.made = reply.Status == 0 || reply.Status >= 500 // it may have been made
		case reply.Fault() != nil:
			t.err = refusedBy(reply.Fault())
		case reply.Status != http.StatusCreated:
			t.err = fmt.Errorf("the group %s was not created: another program is creating it",
				group.Name())
		default:
			t.made = true
		}
		return
	}
}

func random() string {
	b := make([]byte, 6)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

// routes returns n routes as a cluster's cloud provider writes them.
func routes(n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = object{"name": fmt.Sprintf("aks-pool-%08d", i), "properties": object{
			"addressPrefix":    fmt.Sprintf("10.%d.%d.0/24", 214+i/256, i%256),
			"nextHopType":      "VirtualAppliance",
			"nextHopIpAddress": fmt.Sprintf("10.213.%d.%d", i/250, 4+i%250),
		}}
	}
	return all
}

func encode(v any) []byte {
	raw, _ := json.Marshal(v) // only plain values come here
	return raw
}
