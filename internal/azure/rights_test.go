package azure_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/network"
)

// guest is a principal that has only the roles it is given.
var guest = emulator.Principal{Name: "guest", ClientID: "9e570000-0000-4000-8000-000000000001", Secret: "s", ObjectID: "9E570000-0000-4000-8000-000000000002", NoRoles: true}

const (
	reader             = "acdd72a7-3385-48ef-bd42-f606fba81ae7"
	networkContributor = "4d97b98b-1d4f-4787-a291-c67834d212e7"

	readTable  = network.TypeRouteTable + "/read"
	writeTable = network.TypeRouteTable + "/write"
)

// rightsWorld is two tables of two groups, somebody who may do everything and a guest.
type rightsWorld struct {
	t                   *testing.T
	e                   *emulator.Emulator
	group, table, other network.ID
	assignments         int
}

func newRightsWorld(t *testing.T) *rightsWorld {
	e := emulatortest.New(t, emulator.Options{Principals: []emulator.Principal{emulatortest.Keeper, emulatortest.Operator, guest}})
	ids := tables(t, e, 2, 1, 1)
	return &rightsWorld{t: t, e: e, group: ids[0].Group(), table: ids[0], other: ids[1]}
}

func (w *rightsWorld) put(id network.ID, version string, doc map[string]any) {
	w.t.Helper()
	op, err := w.e.Client(emulatortest.Keeper)
	if err == nil {
		err = op.Put(id, version, doc)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// assign gives the guest a role at a scope.
func (w *rightsWorld) assign(scope network.ID, role string) {
	w.t.Helper()
	w.assignments++
	w.put(scope+network.ID(fmt.Sprintf("/providers/Microsoft.Authorization/roleAssignments/a5000000-0000-4000-8000-%012d", w.assignments)), "2022-04-01",
		map[string]any{"properties": map[string]any{"roleDefinitionId": "/subscriptions/" + sub + "/providers/Microsoft.Authorization/roleDefinitions/" + role, "principalId": guest.ObjectID}})
}

// define makes a custom role of some actions.
func (w *rightsWorld) define(guid string, actions ...string) string {
	w.t.Helper()
	w.put("/subscriptions/"+sub+"/providers/Microsoft.Authorization/roleDefinitions/"+network.ID(guid), "2022-04-01", map[string]any{"properties": map[string]any{
		"roleName": "role " + guid, "assignableScopes": []any{"/subscriptions/" + sub}, "permissions": []any{map[string]any{"actions": actions}}}})
	return guid
}

// read reads the rights of the guest, as the given principal.
func (w *rightsWorld) read(as emulator.Principal, scopes ...network.ID) *network.Snapshot {
	w.t.Helper()
	s := network.NewSnapshot()
	if err := emulatortest.Client(w.t, w.e, as).ReadRights(w.t.Context(), s, scopes, []string{guest.ObjectID}); err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *rightsWorld) of(s *network.Snapshot, scope network.ID) network.Rights {
	w.t.Helper()
	rights, read := s.Rights[guest.ObjectID][scope.Key()]
	if !read {
		w.t.Fatalf("no rights at %s", scope)
	}
	return rights
}

// TestRightsOfRoles: what roles at a scope and above it allow, the caller's own and somebody else's, and not what those below it do.
func TestRightsOfRoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRightsWorld(t)
		w.assign(w.group, reader)
		w.assign(w.table, networkContributor)
		for name, as := range map[string]emulator.Principal{"read by the guest": guest, "read by somebody else": emulatortest.Keeper} {
			s := w.read(as, w.group, w.table)
			if s.Caller != strings.ToLower(as.ObjectID) {
				t.Errorf("%s: the caller is %q", name, s.Caller)
			}
			at := map[network.ID]network.Rights{w.group: w.of(s, w.group), w.table: w.of(s, w.table)}
			if got := at[w.table].Roles; !slices.Equal(got, []string{"Network Contributor", "Reader"}) {
				t.Errorf("%s: roles at the table %v", name, got)
			}
			if got := at[w.group].Roles; !slices.Equal(got, []string{"Reader"}) {
				t.Errorf("%s: roles at the group %v", name, got)
			}
			if as.NoRoles {
				for scope, rights := range at {
					own := s.Own[scope.Key()]
					if own.Failed != "" || own.May(writeTable) != rights.May(writeTable) || !own.May(readTable) {
						t.Errorf("%s: own rights at %s: %+v", name, scope.Short(), own)
					}
				}
			}
			for scope, may := range map[network.ID]bool{w.group: false, w.table: true} {
				if r := at[scope]; r.Failed != "" || r.May(writeTable) != may || !r.May(readTable) {
					t.Errorf("%s: rights at %s: %+v", name, scope.Short(), r)
				}
			}
		}
	})
}

// TestRightsNone: that somebody has no role counts where the caller may read all assignments, and not where it may not.
func TestRightsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRightsWorld(t)
		if r := w.of(w.read(emulatortest.Keeper, w.table), w.table); r.Failed != "" || r.May(readTable) {
			t.Errorf("nobody gave the guest anything: %+v", r)
		}
		// Assignments are refused, or the list is made of what the caller may see.
		blind := w.define("c0000000-0000-4000-8000-000000000001", "Microsoft.Authorization/permissions/read", readTable)
		w.assign(w.group, blind)
		s := w.read(guest, w.table)
		if own := s.Own[w.table.Key()]; own.Failed != "" || !own.May(readTable) || own.May(writeTable) {
			t.Errorf("own rights %+v", own)
		}
		if r := w.of(s, w.table); r.Failed == "" || r.Undenied == "" {
			t.Errorf("what the caller may not read is taken for complete: %+v", r)
		}
		w.assign(w.table, reader) // of the table all are seen, of the group only those below
		if r := w.of(w.read(guest, w.group), w.group); r.Failed == "" {
			t.Errorf("a list of what lies below is taken for complete: %+v", r)
		}
	})
}

// TestRightsUnread: one refusal spoils the scope or the role that it concerns, and nothing else.
func TestRightsUnread(t *testing.T) {
	refuse := func(path string) emulator.Fault {
		return emulator.Fault{Path: path, Status: 403, Code: "AuthorizationFailed", Message: "no", Count: -1}
	}
	for name, tt := range map[string]struct {
		path                    string
		own, there, elsewhere   bool // read in full?
		undenied, allowedAnyway bool
	}{
		"permissions":      {"g0/.*/permissions$", false, false, true, false, true},
		"role assignments": {"g0/.*/roleAssignments$", true, false, true, false, false},
		"a role":           {"roleDefinitions/" + reader + "$", true, false, true, false, true},
		"deny assignments": {"g0/.*/denyAssignments$", true, true, true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newRightsWorld(t)
				w.assign(w.table, reader)
				w.assign("/subscriptions/"+sub, networkContributor)
				if _, err := w.e.Inject(refuse(tt.path)); err != nil {
					t.Fatal(err)
				}
				s := w.read(emulatortest.Keeper, w.table, w.other)
				own, there, elsewhere := s.Own[w.table.Key()], w.of(s, w.table), w.of(s, w.other)
				if (own.Failed == "") != tt.own || (there.Failed == "") != tt.there || (elsewhere.Failed == "") != tt.elsewhere {
					t.Errorf("own %q, there %q, elsewhere %q", own.Failed, there.Failed, elsewhere.Failed)
				}
				if (there.Undenied != "") != tt.undenied || there.May(writeTable) != tt.allowedAnyway || !elsewhere.May(writeTable) {
					t.Errorf("there %+v, elsewhere %+v", there, elsewhere)
				}
			})
		})
	}
}

// TestRightsReadOnce: a role is read once, however many scopes and assignments name it.
func TestRightsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRightsWorld(t)
		w.assign(w.table, reader)
		w.assign(w.other, reader)
		c := emulatortest.Client(t, w.e, emulatortest.Keeper)
		if err := c.ReadRights(t.Context(), network.NewSnapshot(), []network.ID{w.table, w.other, w.table}, []string{guest.ObjectID}); err != nil {
			t.Fatal(err)
		}
		if reads, _, _ := c.Counts(); reads != 2*3+1 {
			t.Errorf("%d calls, want three lists for each of two scopes, and the role", reads)
		}
	})
}

// TestRightsDenied: the lockdown of a node resource group takes everything but reading from everybody but the cluster.
func TestRightsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRightsWorld(t)
		identity := w.group + "/providers/Microsoft.ManagedIdentity/userAssignedIdentities/shop-id"
		w.put(identity, "2023-01-31", map[string]any{"location": "westeurope"})
		cluster := w.group + "/providers/Microsoft.ContainerService/managedClusters/shop"
		w.put(cluster, "2025-10-01", map[string]any{"location": "westeurope",
			"identity": map[string]any{"type": "UserAssigned", "userAssignedIdentities": map[string]any{string(identity): map[string]any{}}},
			"properties": map[string]any{"networkProfile": map[string]any{"networkPlugin": "kubenet"},
				"nodeResourceGroupProfile": map[string]any{"restrictionLevel": "ReadOnly"},
				"agentPoolProfiles":        []any{map[string]any{"name": "np", "count": 1}}}})
		w.assign("/subscriptions/"+sub, networkContributor)
		c := emulatortest.Client(t, w.e, emulatortest.Keeper)
		s := network.NewSnapshot()
		if err := c.Read(t.Context(), s, network.Wanted{Clusters: []network.ID{cluster}}); err != nil {
			t.Fatal(err)
		}
		who := s.Cluster(cluster).PrincipalIDs
		if len(who) != 1 {
			t.Fatalf("the cluster's identity is %v", who)
		}
		locked := s.Cluster(cluster).NodeGroup()
		if err := c.ReadRights(t.Context(), s, []network.ID{locked, w.group}, append(who, guest.ObjectID)); err != nil {
			t.Fatal(err)
		}
		for name, tt := range map[string]struct {
			rights network.Rights
			denied bool
		}{
			"the caller":           {s.Own[locked.Key()], true},
			"the guest":            {w.of(s, locked), true},
			"the cluster":          {s.Rights[who[0]][locked.Key()], false},
			"the caller elsewhere": {s.Own[w.group.Key()], false},
			"the guest elsewhere":  {w.of(s, w.group), false},
		} {
			if got := len(tt.rights.DeniedBy) > 0; got != tt.denied || tt.rights.Failed != "" {
				t.Errorf("%s: %+v", name, tt.rights)
			}
			if name != "the cluster" && tt.rights.May(writeTable) == tt.denied {
				t.Errorf("%s may write tables: %v", name, !tt.denied)
			}
			if tt.denied && slices.ContainsFunc(tt.rights.Denied, func(p network.Permission) bool {
				return network.Rights{Permissions: []network.Permission{p}}.May(readTable)
			}) {
				t.Errorf("%s may not read", name)
			}
		}
	})
}
