package emulator

import (
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// kind is what a resource type does beyond being kept. Every function runs under the emulator's
// lock.
type kind struct {
	name      string // in Azure's case
	tracked   bool   // has a location
	immediate bool   // its writes are done when they are answered
	// synchronous writes have an operation that has ended already.
	synchronous bool
	merges      bool // a PATCH changes more than its tags
	unknown     bool
	// alwaysCreated answers every PUT with 201.
	alwaysCreated bool
	// settle turns what was sent (in r.body) into what is stored, or refuses it. old is nil for a
	// new one.
	settle func(e *Emulator, c *call, r, old *resource) *failure
	// stored does what follows from the write.
	stored func(e *Emulator, c *call, r, old *resource) *failure
	// show adds to a copy of the body what is computed when it is read.
	show func(e *Emulator, r *resource, doc object, version string)
	// removable refuses a delete, removed does what follows from one.
	removable func(e *Emulator, r *resource) *failure
	removed   func(e *Emulator, r *resource)
}

// kinds are by kindKey.
var kinds = map[string]*kind{}

// The table is filled at start-up because its functions use it.
func init() {
	for name, k := range map[string]*kind{
		arm.TypeResourceGroup: {tracked: true, immediate: true, settle: (*Emulator).checkRegion},
		arm.TypeVNet: {tracked: true, settle: (*Emulator).settleVNet,
			stored: (*Emulator).storedVNet, show: (*Emulator).showVNet, removable: (*Emulator).
				vnetRemovable, removed: (*Emulator).vnetRemoved},
		arm.TypeSubnet: {settle: (*Emulator).settleSubnet,
			stored: (*Emulator).storedSubnet, show: (*Emulator).showSubnet, removable: (*Emulator).
				subnetRemovable},
		typePeering: {settle: (*Emulator).settlePeering,
			stored: (*Emulator).storedPeering, show: showPeering, removed: (*Emulator).
				peeringRemoved},
		arm.TypeRouteTable: {tracked: true, settle: (*Emulator).settleRouteTable},
		arm.TypeGateway: {tracked: true, settle: (*Emulator).settleGateway,
			show: showGateway},
		arm.TypeCluster: {tracked: true, settle: (*Emulator).settleCluster,
			stored: (*Emulator).storedCluster, show: (*Emulator).showCluster, removed: (*Emulator).
				clusterRemoved},
		arm.TypeScaleSet: {tracked: true, merges: true, settle: (*Emulator).settleScaleSet,
			stored: (*Emulator).storedScaleSet, show: showScaleSet},
		typeScaleSetExtension: {settle: (*Emulator).settleExtension},
		typeMaintenance: {immediate: true, settle: (*Emulator).settleMaintenance,
			show: showMaintenance},
		typeNIC: {tracked: true, synchronous: true,
			settle: (*Emulator).settleInterface},
		typeNSG: {tracked: true, settle: (*Emulator).settleSecurityGroup,
			show: showSecurityGroup},
		typeNAT: {tracked: true, settle: (*Emulator).settleNAT},
		typePublicIP: {tracked: true, settle: (*Emulator).settlePublicIP,
			show: showPublicIP},
		typeEndpointPolicy: {tracked: true},
		typeFirewall:       {tracked: true},
		typeVPNGateway:     {tracked: true},
		typeBastion:        {tracked: true},
		typeLoadBalancer:   {tracked: true},
		typeWatcher:        {tracked: true},
		typeVM:             {tracked: true},
		typeDeployment: {immediate: true, show: showDeployment,
			removed: (*Emulator).deploymentRemoved},
		typeUserIdentity: {tracked: true, immediate: true,
			settle: (*Emulator).settleUserIdentity, stored: (*Emulator).storedUserIdentity,
			show: showBare, removed: (*Emulator).userIdentityRemoved},
		typeFederatedCredential: {immediate: true, settle: (*Emulator).settleFederatedCredential,
			show: showBare},
		typeRoleDefinition: {immediate: true, alwaysCreated: true,
			settle: (*Emulator).settleRoleDefinition, show: showBare, removable: (*Emulator).
				roleDefinitionRemovable},
		typeRoleAssignment: {immediate: true, alwaysCreated: true,
			settle: (*Emulator).settleRoleAssignment, show: showBare},
		typeLock: {immediate: true, settle: (*Emulator).settleLock, show: showBare},
		typePolicyDefinition: {immediate: true, alwaysCreated: true,
			settle: (*Emulator).settlePolicyDefinition, show: showPolicy},
		typePolicyAssignment: {immediate: true, alwaysCreated: true,
			settle: (*Emulator).settlePolicyAssignment, show: showPolicy},
		arm.TypeAlertRule: {tracked: true, immediate: true, merges: true,
			settle: (*Emulator).settleAlert},
		arm.TypeActionGroup: {tracked: true, immediate: true, merges: true,
			settle: (*Emulator).settleActionGroup},
	} {
		k.name = name
		kinds[kindKey(name)] = k
	}
}

func kindOf(id arm.ID) *kind {
	if k := kinds[kindKey(id.Type())]; k != nil {
		return k
	}
	return &kind{unknown: true, immediate: true}
}

// render writes a resource as it is read at an api-version.
func (e *Emulator) render(r *resource, version string) []byte {
	shows := [2]string{state(r), r.tag()}
	if raw := r.rendered[version]; raw != nil && r.renderedAs == shows {
		return raw
	}
	if r.renderedAs != shows || len(r.rendered) == maxRendered {
		r.rendered = nil
	}
	if r.rendered == nil {
		r.rendered = map[string][]byte{}
	}
	raw := encode(e.document(r, version))
	r.rendered[version], r.renderedAs = raw, shows
	return raw
}

// maxRendered is at how many api-versions a resource is kept as it was last rendered.
const maxRendered = 4

// document is render as an object.
func (e *Emulator) document(r *resource, version string) object {
	doc := clone(r.body)
	doc["id"] = string(r.id)
	doc["name"] = r.id.Name()
	doc["type"] = kindName(r.id)
	properties, has := doc["properties"].(object)
	if has {
		properties["provisioningState"] = state(r)
	}
	if r.etag != "" && ofNetwork(r.id) {
		doc["etag"] = r.tag()
	}
	if has {
		e.showBack(r, doc)
	}
	if show := kindOf(r.id).show; show != nil {
		show(e, r, doc, version)
	}
	e.showFacts(r, doc, version)
	showNested(r, doc)
	for _, f := range e.newer(r.id, version) {
		removePath(doc, f.Path)
	}
	return doc
}

// kindName is the type in Azure's case, whatever the case of the ID.
func kindName(id arm.ID) string {
	if k := kinds[kindKey(id.Type())]; k != nil {
		return k.name
	}
	return id.Type()
}

// spelled is an ID with its words in Azure's case, whatever the case they came in; the names in it
// keep theirs.
func spelled(id arm.ID) arm.ID {
	segments := strings.Split(string(id), "/")
	for i := 1; i+1 < len(segments); i += 2 { // pairs of a word and a name
		switch strings.ToLower(segments[i]) {
		case "subscriptions", "providers":
			segments[i] = strings.ToLower(segments[i])
		case "resourcegroups":
			segments[i] = "resourceGroups"
		default:
			words := strings.Split(kindName(arm.ID(strings.Join(segments[:i+2], "/"))), "/")
			segments[i] = words[len(words)-1]
			if segments[i-2] == "providers" {
				segments[i-1] = words[0]
			}
		}
	}
	return arm.ID(strings.Join(segments, "/"))
}

func kindKey(resourceType string) string { return strings.ToLower(resourceType) }

func state(r *resource) string {
	if r.deleting {
		return "Deleting"
	}
	switch {
	case r.busyUntil.After(time.Now()) && r.doing != "":
		return r.doing
	case r.busyUntil.After(time.Now()):
		return "Updating"
	case r.failed != nil:
		return "Failed"
	}
	return "Succeeded"
}

// NewerField is a field that exists from an api-version on: at an older one a GET hides it, and a
// PUT drops it.
type NewerField struct {
	Type  string // resource type
	Path  string // such as properties.defaultOutboundAccess
	Since string // api-version, such as 2023-09-01
}

// newerFields are some of the real ones (Microsoft.Network's API specifications); clients with
// older api-versions lose them on Azure too.
var newerFields = []NewerField{
	{arm.TypeSubnet, "properties.defaultOutboundAccess", "2023-09-01"},
	{arm.TypeSubnet, "properties.sharingScope", "2023-09-01"},
	{arm.TypeSubnet, "properties.ipamPoolPrefixAllocations", "2024-05-01"},
	{arm.TypeVNet, "properties.encryption", "2021-08-01"},
	{arm.TypeVNet, "properties.privateEndpointVNetPolicies", "2024-03-01"},
	{typePolicyDefinition, "systemData", "2021-06-01"},
	{typePolicyAssignment, "systemData", "2021-06-01"},
}

func (e *Emulator) newer(id arm.ID, version string) []NewerField {
	var out []NewerField
	for _, list := range [][]NewerField{newerFields, e.opts.Newer} {
		for _, f := range list {
			if version < f.Since && id.Is(f.Type) {
				out = append(out, f)
			}
		}
	}
	return out
}

// dropNewer removes from a sent document what the api-version does not know.
func (e *Emulator) dropNewer(id arm.ID, body object, version string) {
	for _, f := range e.newer(id, version) {
		removePath(body, f.Path)
	}
}

func removePath(doc object, path string) {
	names := strings.Split(path, ".")
	if at := objectAt(doc, names[:len(names)-1]...); at != nil {
		delete(at, names[len(names)-1])
	}
}
