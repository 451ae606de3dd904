package emulator

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// savedResource is a resource as it is kept, with the addresses in use where it is a subnet.
type savedResource struct {
	ID        arm.ID                `json:"id"`
	Body      object                `json:"body"`
	ETag      string                `json:"etag,omitempty"`
	Settled   string                `json:"settled,omitempty"`
	Settles   time.Time             `json:"settles,omitzero"`
	AsOf      time.Time             `json:"asOf,omitzero"`
	Fresh     bool                  `json:"fresh,omitempty"`
	BusyUntil time.Time             `json:"busyUntil,omitzero"`
	Doing     string                `json:"doing,omitempty"`
	Failed    *savedFailure         `json:"failed,omitempty"`
	Deleting  bool                  `json:"deleting,omitempty"`
	Created   time.Time             `json:"created,omitzero"`
	Changed   time.Time             `json:"changed,omitzero"`
	InUse     map[netip.Addr]arm.ID `json:"inUse,omitempty"`
}

func (k *kernel) saveResource(r *resource) savedResource {
	s := savedResource{ID: r.id, Body: r.body, ETag: r.etag, Settled: r.settled, Settles: r.settles,
		AsOf: r.asOf, Fresh: r.fresh, BusyUntil: r.busyUntil, Doing: r.doing, Failed: saveFailure(
			r.failed), Deleting: r.deleting, Created: r.created, Changed: r.changed}
	if used := k.store.inUse[r.id.Key()]; used != nil {
		s.InUse = used.by
	}
	return s
}

func (k *kernel) restoreResource(s savedResource) {
	r := &resource{id: s.ID, body: s.Body, etag: s.ETag, settled: s.Settled, settles: s.Settles,
		asOf: s.AsOf, fresh: s.Fresh, busyUntil: s.BusyUntil, doing: s.Doing,
		failed: s.Failed.failure(), deleting: s.Deleting, created: s.Created, changed: s.Changed}
	k.store.put(r)
	if len(s.InUse) > 0 {
		k.store.addressesOf(s.ID).by = s.InUse
	}
	if s.ID.Is(typeUserIdentity) {
		k.entra.identity.add(identityOf(r))
	}
}

// savedCluster is what runs behind a cluster's document, as it is kept.
type savedCluster struct {
	ID          arm.ID         `json:"id"`
	Digits      string         `json:"digits"`
	Location    string         `json:"location"`
	NodeGroup   arm.ID         `json:"nodeGroup"`
	Mode        networkMode    `json:"mode"`
	Leaving     bool           `json:"leaving,omitempty"`
	PodCIDRs    []netip.Prefix `json:"podCIDRs,omitempty"`
	Table       arm.ID         `json:"table,omitempty"`
	Who         Principal      `json:"who"`
	Pools       []savedPool    `json:"pools"`
	NextPodCIDR []int          `json:"nextPodCIDR,omitempty"`
	Paused      bool           `json:"paused,omitempty"`
	Bugs        RouteBugs      `json:"bugs,omitzero"`
}

type savedPool struct {
	Name      string      `json:"name"`
	Subnet    arm.ID      `json:"subnet"`
	ScaleSet  arm.ID      `json:"scaleSet"`
	Kind      string      `json:"kind,omitempty"`
	PodSubnet arm.ID      `json:"podSubnet,omitempty"`
	Blocks    bool        `json:"blocks,omitempty"`
	MaxPods   int         `json:"maxPods"`
	VMSize    string      `json:"vmSize"`
	Doing     string      `json:"doing,omitempty"`
	Next      int         `json:"next"`
	Nodes     []savedNode `json:"nodes"`
}

type savedNode struct {
	Name     string         `json:"name"`
	Instance int            `json:"instance"`
	Addrs    []netip.Addr   `json:"addrs"`
	Pods     []netip.Addr   `json:"pods,omitempty"`
	PodCIDRs []netip.Prefix `json:"podCIDRs,omitempty"`
	Created  time.Time      `json:"created,omitzero"`
	// RoutesSeen is since when the cloud provider says what it says of the node's routes,
	// RoutesThere what that is.
	RoutesSeen  time.Time `json:"routesSeen,omitzero"`
	RoutesThere bool      `json:"routesThere,omitempty"`
}

func saveCluster(cl *cluster) savedCluster {
	s := savedCluster{
		ID: cl.id, Digits: cl.digits, Location: cl.location, NodeGroup: cl.nodeGroup, Mode: cl.mode,
		Leaving: cl.leaving, PodCIDRs: cl.podCIDRs,
		Table: cl.table, Who: cl.who, NextPodCIDR: cl.nextPodCIDR, Paused: cl.provider.paused,
		Bugs: cl.provider.bugs,
	}
	for _, p := range cl.pools {
		pool := savedPool{Name: p.name, Subnet: p.subnet, ScaleSet: p.scaleSet, Kind: p.kind,
			Next:      p.next,
			PodSubnet: p.podSubnet, Blocks: p.blocks, MaxPods: p.maxPods, VMSize: p.vmSize,
			Doing: p.doing}
		for _, n := range p.nodes {
			pool.Nodes = append(pool.Nodes, savedNode{Name: n.name, Instance: n.instance,
				Addrs: n.addrs, Pods: n.pods, PodCIDRs: n.podCIDRs, Created: n.created,
				RoutesSeen: n.routes.since, RoutesThere: n.routes.there})
		}
		s.Pools = append(s.Pools, pool)
	}
	return s
}

func (s *aks) restoreCluster(saved savedCluster) error {
	cl := &cluster{
		id: saved.ID, digits: saved.Digits, location: saved.Location, nodeGroup: saved.NodeGroup,
		mode:    saved.Mode,
		leaving: saved.Leaving, podCIDRs: saved.PodCIDRs,
		table: saved.Table, who: saved.Who, nextPodCIDR: saved.NextPodCIDR,
		takenPodCIDRs: map[netip.Prefix]bool{},
	}
	cl.provider = &cloudProvider{aks: s, cluster: cl, paused: saved.Paused, bugs: saved.Bugs}
	for _, p := range saved.Pools {
		restored := &pool{name: p.Name, subnet: p.Subnet, scaleSet: p.ScaleSet, kind: p.Kind,
			next:      p.Next,
			podSubnet: p.PodSubnet, blocks: p.Blocks, maxPods: p.MaxPods, vmSize: p.VMSize,
			doing: p.Doing}
		if restored.made = true; !restored.single() {
			s.scaleSets[p.ScaleSet.Key()] = poolOf{cl, restored}
		}
		for _, n := range p.Nodes {
			restored.nodes = append(restored.nodes, &node{name: n.Name, instance: n.Instance,
				addrs: n.Addrs, pods: n.Pods, podCIDRs: n.PodCIDRs, created: n.Created,
				routes: routesSeen{n.RoutesSeen, n.RoutesThere}})
			for _, taken := range n.PodCIDRs {
				cl.takenPodCIDRs[taken] = true
			}
		}
		cl.pools = append(cl.pools, restored)
	}
	s.clusters[cl.id.Key()] = cl
	s.nodeGroups[cl.nodeGroup.Key()] = cl
	// a user-assigned identity comes with its document, if it is still there
	if arm.ID(cl.who.Resource).Equal(cl.id) {
		s.entra.identity.add(cl.who)
	}
	return nil
}

// savedActivity is a record of the activity log as it is kept.
type savedActivity struct {
	ID            string        `json:"id"`
	OperationID   string        `json:"operationID"`
	CorrelationID string        `json:"correlationID"`
	At            time.Time     `json:"at"`
	Resource      arm.ID        `json:"resource"`
	Operation     string        `json:"operation"`
	Event         string        `json:"event"`
	Status        string        `json:"status"`
	SubStatus     string        `json:"subStatus,omitempty"`
	Ends          time.Time     `json:"ends,omitzero"`
	Failure       *savedFailure `json:"failure,omitempty"`
	Who           Principal     `json:"who"`
	Body          []byte        `json:"body,omitempty"`
}

func saveActivity(r activityRecord) savedActivity {
	return savedActivity{
		ID: r.id, OperationID: r.operationID, CorrelationID: r.correlationID, At: r.at,
		Resource: r.resource, Operation: r.operation,
		Event: r.event, Status: r.status, SubStatus: r.subStatus, Ends: r.ends,
		Failure: saveFailure(r.failure), Who: r.who, Body: r.body,
	}
}

func (k *kernel) restoreActivity(s savedActivity) activityRecord {
	return activityRecord{
		kind: k.kindName(s.Resource), id: s.ID, operationID: s.OperationID,
		correlationID: s.CorrelationID, at: s.At,
		resource: s.Resource, operation: s.Operation,
		event: s.Event, status: s.Status, subStatus: s.SubStatus, ends: s.Ends,
		failure: s.Failure.failure(), who: s.Who, body: s.Body,
	}
}

// savedOperation is a long-running operation as it is kept.
type savedOperation struct {
	Name    string        `json:"name"`
	Ends    time.Time     `json:"ends"`
	Result  []byte        `json:"result,omitempty"`
	Failure *savedFailure `json:"failure,omitempty"`
}

// savedFailure is an error answer as it is kept.
type savedFailure struct {
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Details []any  `json:"details,omitempty"`
}

func saveFailure(f *failure) *savedFailure {
	if f == nil {
		return nil
	}
	return &savedFailure{f.status, f.code, f.message, f.details}
}

func (s *savedFailure) failure() *failure {
	if s == nil {
		return nil
	}
	return &failure{status: s.Status, code: s.Code, message: s.Message, details: s.Details}
}

func saveOperation(name string, op *operation) savedOperation {
	return savedOperation{Name: name, Ends: op.ends, Result: op.result,
		Failure: saveFailure(op.failure)}
}

func (k *kernel) restoreOperation(s savedOperation) error {
	k.operations[s.Name] = &operation{ends: s.Ends, result: s.Result, failure: s.Failure.failure()}
	return nil
}

// savedKeys sign tokens: who was logged in stays so.
type savedKeys struct {
	Tokens []byte `json:"tokens"` // PKCS #1
	KeyID  string `json:"keyID"`
}

// savedServer is where it listened and as whom, so that clients find it again.
type savedServer struct {
	HTTPS string `json:"https,omitempty"`
	HTTP  string `json:"http,omitempty"`
	CA    []byte `json:"ca,omitempty"`    // certificate, DER
	CAKey []byte `json:"caKey,omitempty"` // SEC 1, DER
}

// changedThings are the things kept in one piece that differ from what was last written.
func (k *kernel) changedThings() (map[string][]byte, error) {
	out := map[string][]byte{}
	for name, thing := range map[string]any{
		"keys": savedKeys{x509.MarshalPKCS1PrivateKey(k.entra.identity.key),
			k.entra.identity.keyID},
		"issuers":      k.entra.identity.keptIssuers(),
		"takesEffect":  k.authorization.takesEffect,
		"registration": k.resources.registration,
		"server":       k.server,
	} {
		raw, err := json.Marshal(thing)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if !bytes.Equal(raw, k.disk.wrote[name]) {
			out[name] = raw
		}
	}
	return out, nil
}

func (k *kernel) restoreThings(read func(name string, into any) error) error {
	var keys savedKeys
	if err := read("keys", &keys); err != nil {
		return err
	}
	if keys.KeyID != "" {
		key, err := x509.ParsePKCS1PrivateKey(keys.Tokens)
		if err != nil {
			return err
		}
		k.entra.identity.restoreKey(key, keys.KeyID)
	}
	issuers := map[string][]jwk{}
	for name, into := range map[string]any{"issuers": &issuers,
		"takesEffect":  &k.authorization.takesEffect,
		"registration": &k.resources.registration, "server": &k.server} {
		if err := read(name, into); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	k.entra.identity.restoreIssuers(issuers)
	return nil
}

func (i *identity) keptIssuers() map[string][]jwk {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.issuers)
}

func (i *identity) restoreIssuers(issuers map[string][]jwk) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.issuers = issuers
}

func (i *identity) restoreKey(key *rsa.PrivateKey, id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.key, i.keyID = key, id
}

// resume goes on with what was under way.
func (k *kernel) resume() {
	under := map[string]activityRecord{}
	for _, r := range k.activity {
		if delete(under, r.operationID); r.status == activityAccepted {
			under[r.operationID] = r
		}
	}
	k.deployments.resumeDeployments()
	k.compute.resumeScaleSets()
	for _, id := range slices.Sorted(maps.Keys(under)) {
		if k.deployments.resumeActivity(under[id]) {
			continue
		}
		k.at(under[id].ends, func() { k.note(under[id].ended(nil)) })
	}
	for _, r := range k.store.list(arm.TypeResourceGroup, "") {
		if r.deleting {
			k.at(r.busyUntil, func() { k.resources.emptyGroup(r) })
		}
	}
	for _, key := range slices.Sorted(maps.Keys(k.aks.clusters)) {
		k.aks.resumeCluster(k.aks.clusters[key])
	}
}
