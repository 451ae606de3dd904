package azure_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// guest is a principal that has only the roles it is given.
var guest = emulator.Principal{Name: "guest", ClientID: "9e570000-0000-4000-8000-000000000001",
	Secret: "s", ObjectID: "9E570000-0000-4000-8000-000000000002", NoRoles: true}

const (
	reader             = "acdd72a7-3385-48ef-bd42-f606fba81ae7"
	networkContributor = "4d97b98b-1d4f-4787-a291-c67834d212e7"

	readTable  = arm.TypeRouteTable + "/read"
	writeTable = arm.TypeRouteTable + "/write"
)

// rightsWorld is two tables in two groups, a principal with all rights, and a guest.
type rightsWorld struct {
	t                   *testing.T
	e                   *emulator.Emulator
	group, table, other arm.ID
	assignments         int
}

func newRightsWorld(t *testing.T) *rightsWorld {
	e := emulatortest.New(t, emulator.Options{Principals: []emulator.Principal{emulatortest.Keeper,
		emulatortest.Operator, guest}})
	ids := tables(t, e, 2, 1, 1)
	return &rightsWorld{t: t, e: e, group: ids[0].Group(), table: ids[0], other: ids[1]}
}

func (w *rightsWorld) put(id arm.ID, version string, doc map[string]any) {
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
func (w *rightsWorld) assign(scope arm.ID, role string) {
	w.t.Helper()
	w.assignments++
	w.put(scope+arm.ID(
		fmt.Sprintf("/providers/Microsoft.Authorization/roleAssignments/a5000000-0000-4000-8000-%012d", w.assignments)), "2022-04-01",
		map[string]any{"properties": map[string]any{"roleDefinitionId": "/subscriptions/" + sub +
			"/providers/Microsoft.Authorization/roleDefinitions/" +
			role, "principalId": guest.ObjectID}})
}

// define makes a custom role of some actions.
func (w *rightsWorld) define(guid string, actions ...string) string {
	w.t.Helper()
	w.put("/subscriptions/"+sub+"/providers/Microsoft.Authorization/roleDefinitions/"+arm.ID(guid),
		"2022-04-01", map[string]any{"properties": map[string]any{
			"roleName": "role " + guid, "assignableScopes": []any{"/subscriptions/" +
				sub}, "permissions": []any{map[string]any{"actions": actions}}}})
	return guid
}

// read reads the rights of the guest, as the given principal.
func (w *rightsWorld) read(as emulator.Principal, scopes ...arm.ID) *inventory.Snapshot {
	w.t.Helper()
	s := inventory.NewSnapshot()
	if err := emulatortest.Client(w.t, w.e, as).ReadRights(w.t.Context(), s, scopes,
		[]string{guest.ObjectID}); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// lockedDown creates a cluster with a locked node resource group, and returns the group and the
// cluster's principal.
func (w *rightsWorld) lockedDown() (group arm.ID, who []string) {
	w.t.Helper()
	identity := w.group + "/providers/Microsoft.ManagedIdentity/userAssignedIdentities/shop-id"
	w.put(identity, "2023-01-31", map[string]any{"location": "westeurope"})
	cluster := w.group + "/providers/Microsoft.ContainerService/managedClusters/shop"
	w.put(cluster, "2025-10-01", map[string]any{"location": "westeurope",
		"identity": map[string]any{"type": "UserAssigned", "userAssignedIdentities": map[string]any{
			string(identity): map[string]any{}}},
		"properties": map[string]any{"networkProfile": map[string]any{"networkPlugin": "kubenet"},
			"nodeResourceGroupProfile": map[string]any{"restrictionLevel": "ReadOnly"},
			"agentPoolProfiles":        []any{map[string]any{"name": "np", "count": 1}}}})
	s := inventory.NewSnapshot()
	if err := emulatortest.Client(w.t, w.e, emulatortest.Keeper).Read(w.t.Context(), s,
		inventory.Wanted{Clusters: []arm.ID{cluster}}, azure.ReadOptions{}); err != nil {
		w.t.Fatal(err)
	}
	if who = s.Cluster(cluster).PrincipalIDs; len(who) != 1 {
		w.t.Fatalf("the cluster's identity is %v", who)
	}
	return s.Cluster(cluster).NodeGroup(), who
}

func (w *rightsWorld) of(s *inventory.Snapshot, scope arm.ID) inventory.Rights {
	w.t.Helper()
	rights, read := s.Rights[guest.ObjectID][scope.Key()]
	if !read {
		w.t.Fatalf("no rights at %s", scope)
	}
	return rights
}

// TestRightsOfRoles: the rights by roles at a scope and above it, but not below, for the caller and
// for another principal.
func TestRightsOfRoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRightsWorld(t)
		w.assign(w.group, reader)
		w.assign(w.table, networkContributor)
		for name, as := range map[string]emulator.Principal{"read by the guest": guest,
			"read by another caller": emulatortest.Keeper} {
			s := w.read(as, w.group, w.table)
			if s.Caller != strings.ToLower(as.ObjectID) {
				t.Errorf("%s: the caller is %q", name, s.Caller)
			}
			at := map[arm.ID]inventory.Rights{w.group: w.of(s, w.group), w.table: w.of(s, w.table)}
			if got := at[w.table].Roles; !slices.Equal(got,
				[]string{"Network Contributor", "Reader"}) {
				t.Errorf("%s: roles at the table %v", name, got)
			}
			if got := at[w.group].Roles; !slices.Equal(got, []string{"Reader"}) {
				t.Errorf("%s: roles at the group %v", name, got)
			}
			if as.NoRoles {
				for scope, rights := range at {
					own := s.CallerRights[scope.Key()]
					if own.Failed != "" || own.May(writeTable) != rights.May(writeTable) ||
						!own.May(readTable) {
						t.Errorf("%s: own rights at %s: %+v", name, scope.Short(), own)
					}
				}
			}
			for scope, may := range map[arm.ID]bool{w.group: false, w.table: true} {
				if r := at[scope]; r.Failed != "" || r.May(writeTable) != may || !r.May(readTable) {
					t.Errorf("%s: rights at %s: %+v", name, scope.Short(), r)
				}
			}
		}
	})
}

// TestRightsNone: that a principal has no role counts only if the caller may read all assignments.
func TestRightsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRightsWorld(t)
		if r := w.of(w.read(emulatortest.Keeper, w.table), w.table); r.Failed != "" ||
			r.May(readTable) {
			t.Errorf("the guest has no roles: %+v", r)
		}
		// Assignments are refused, or the list shows only what the caller may see.
		blind := w.define("c0000000-0000-4000-8000-000000000001",
			"Microsoft.Authorization/permissions/read", readTable)
		w.assign(w.group, blind)
		s := w.read(guest, w.table)
		if own := s.CallerRights[w.table.Key()]; own.Failed != "" || !own.May(readTable) ||
			own.May(writeTable) {
			t.Errorf("own rights %+v", own)
		}
		if r := w.of(s, w.table); r.Failed == "" || r.Undenied == "" {
			t.Errorf("what the caller may not read is taken for complete: %+v", r)
		}
		// all roles at the table are visible, of the group only those below it
		w.assign(w.table, reader)
		if r := w.of(w.read(guest, w.group), w.group); r.Failed == "" {
			t.Errorf("a list of what lies below is taken for complete: %+v", r)
		}
	})
}

// TestRightsUnread: a refusal affects only its scope or role. If a list of the whole subscription
// is refused, smaller scopes are listed.
func TestRightsUnread(t *testing.T) {
	refuse := func(path string) emulator.Fault {
		return emulator.Fault{Path: path, Status: 403, Code: "AuthorizationFailed", Message: "no",
			Count: -1}
	}
	const all, whole = "^/subscriptions/[^/]+/providers/Microsoft.Authorization/",
		"(g0/.*|^/subscriptions/[^/]+/providers/Microsoft.Authorization/)"
	for name, tt := range map[string]struct {
		path                    string
		own, there, elsewhere   bool // read in full?
		undenied, allowedAnyway bool
	}{
		"permissions of a group": {"g0/.*permissions$", false, true, true, false, true},
		"permissions of a group and of all": {whole + "permissions$", false, false, true, false,
			true},
		"role assignments of all": {all + "roleAssignments$", true, true, true, false, true},
		"role assignments of a group": {whole + "roleAssignments$", true, false, true, false,
			false},
		"a role": {"roleDefinitions/" + reader + "$", true, false, true, false, true},
		"deny assignments of all": {all + "denyAssignments$", true, true, true, false,
			true},
		"deny assignments of a group": {whole + "denyAssignments$", true, true, true, true, true},
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
				own, there, elsewhere := s.CallerRights[w.table.Key()], w.of(s, w.table), w.of(s,
					w.other)
				if (own.Failed == "") != tt.own || (there.Failed == "") != tt.there ||
					(elsewhere.Failed == "") != tt.elsewhere {
					t.Errorf("own %q, there %q, elsewhere %q", own.Failed, there.Failed,
						elsewhere.Failed)
				}
				if (there.Undenied != "") != tt.undenied ||
					there.May(writeTable) != tt.allowedAnyway || !elsewhere.May(writeTable) {
					t.Errorf("there %+v, elsewhere %+v", there, elsewhere)
				}
			})
		})
	}
}

// TestRightsCalls: the number of calls grows with the resource groups, not with the scopes in them,
// and each role is read once. What the caller may do at a single scope is read there.
func TestRightsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRightsWorld(t)
		w.assign("/subscriptions/"+sub, reader)
		w.assign(w.table, reader)
		w.assign(w.other, networkContributor)
		scopes := []arm.ID{w.table, w.other, w.table}
		for i := range 100 {
			scopes = append(scopes, w.group+
				arm.ID(fmt.Sprintf("/providers/Microsoft.Network/routeTables/more%d", i)))
		}
		since := w.e.LastRequest()
		s := w.read(guest, scopes...)
		calls := map[string]int{}
		for _, r := range w.e.Requests(since) {
			calls[r.Path[strings.LastIndex(r.Path, "Microsoft.Authorization/")+
				len("Microsoft.Authorization/"):]]++
		}
		// permissions: of the subscription, two groups, and the two tables with a role of the
		// caller.
		want := map[string]int{"permissions": 1 + 2 + 2, "denyAssignments": 1, "roleAssignments": 2,
			"roleDefinitions/" + reader: 1, "roleDefinitions/" + networkContributor: 1}
		if !maps.Equal(calls, want) {
			t.Errorf("calls %v, want %v", calls, want)
		}
		for scope, may := range map[arm.ID]bool{w.table: false, w.other: true, scopes[50]: false} {
			own, there := s.CallerRights[scope.Key()], w.of(s, scope)
			if own.May(writeTable) != may || there.May(writeTable) != may || !own.May(readTable) ||
				!there.May(readTable) {
				t.Errorf("at %s: own %+v, the guest's %+v", scope.Short(), own, there)
			}
		}
	})
}

// TestRightsAgree: lists of the whole subscription, of resource groups, and of every single scope
// have the same result.
func TestRightsAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRightsWorld(t)
		locked, who := w.lockedDown()
		w.assign("/subscriptions/"+sub, reader)
		w.assign(w.group, networkContributor)
		w.assign(w.other, networkContributor)
		scopes := []arm.ID{w.table, w.other, w.other.Group() +
			"/providers/Microsoft.Network/routeTables/y", locked +
			"/providers/Microsoft.Network/routeTables/x", locked +
			"/providers/Microsoft.Network/routeTables/y"}
		for _, as := range []emulator.Principal{guest, emulatortest.Keeper} {
			read := func(refused string) *inventory.Snapshot {
				if refused != "" {
					remove, err := w.e.Inject(emulator.Fault{Path: refused +
						"/providers/Microsoft.Authorization/(roleAssignments|denyAssignments)$",
						Status: 403, Code: "AuthorizationFailed", Message: "no", Count: -1})
					if err != nil {
						t.Fatal(err)
					}
					defer remove()
				}
				s := inventory.NewSnapshot()
				if err := emulatortest.Client(t, w.e, as).ReadRights(t.Context(), s, scopes,
					append(who, guest.ObjectID)); err != nil {
					t.Fatal(err)
				}
				return s
			}
			want := read("^/subscriptions/[^/]+(/resourceGroups/[^/]+)?")
			for _, refused := range []string{"", "^/subscriptions/[^/]+"} {
				if got := read(refused); !reflect.DeepEqual(got.CallerRights, want.CallerRights) ||
					!reflect.DeepEqual(got.Rights, want.Rights) {
					t.Errorf("%s, refused %q:\n%+v\n%+v\nwant\n%+v\n%+v", as.Name, refused,
						got.CallerRights,
						got.Rights, want.CallerRights, want.Rights)
				}
			}
			for i, may := range []bool{true, true, as.Name != guest.Name, false, false} {
				if own := want.CallerRights[scopes[i].Key()]; own.Failed != "" ||
					own.Undenied != "" ||
					own.May(writeTable) != may {
					t.Errorf("%s at %s: %+v", as.Name, scopes[i], own)
				}
			}
		}
	})
}

// TestRightsDenied: the lock of a node resource group denies everything except reading to every
// principal except the cluster.
func TestRightsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRightsWorld(t)
		locked, who := w.lockedDown()
		w.assign("/subscriptions/"+sub, networkContributor)
		c := emulatortest.Client(t, w.e, emulatortest.Keeper)
		s := inventory.NewSnapshot()
		if err := c.ReadRights(t.Context(), s, []arm.ID{locked, w.group},
			append(who, guest.ObjectID)); err != nil {
			t.Fatal(err)
		}
		for name, tt := range map[string]struct {
			rights inventory.Rights
			denied bool
		}{
			"the caller":           {s.CallerRights[locked.Key()], true},
			"the guest":            {w.of(s, locked), true},
			"the cluster":          {s.Rights[who[0]][locked.Key()], false},
			"the caller elsewhere": {s.CallerRights[w.group.Key()], false},
			"the guest elsewhere":  {w.of(s, w.group), false},
		} {
			if got := len(tt.rights.DeniedBy) > 0; got != tt.denied || tt.rights.Failed != "" {
				t.Errorf("%s: %+v", name, tt.rights)
			}
			if name != "the cluster" && tt.rights.May(writeTable) == tt.denied {
				t.Errorf("%s may write tables: %v", name, !tt.denied)
			}
			if tt.denied &&
				slices.ContainsFunc(tt.rights.Denied, func(p inventory.Permission) bool {
					return inventory.Rights{Permissions: []inventory.Permission{p}}.May(readTable)
				}) {
				t.Errorf("%s may not read", name)
			}
		}
	})
}
