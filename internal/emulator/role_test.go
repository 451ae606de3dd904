package emulator

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/authorization"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// guest is a principal without roles.
var guest = Principal{Name: "guest", ClientID: "9e570000-0000-4000-8000-000000000001",
	Secret: "guest-secret", ObjectID: "9e570000-0000-4000-8000-000000000002", NoRoles: true}

// withGuest makes a bench and the same one for a guest's calls.
func withGuest(t *testing.T, opts Options) (owner, visitor *bench) {
	opts.Principals = []Principal{DefaultPrincipal, guest}
	owner = newBench(t, opts)
	return owner, owner.as(guest)
}

// withToken makes a client that has a token and cannot get another.
func withToken(e *Emulator, token string) *Client {
	return &Client{e: e, token: token, expires: time.Now().Add(1000 * time.Hour)}
}

func (b *bench) as(p Principal) *bench {
	b.t.Helper()
	c, err := b.e.Client(p)
	if err != nil {
		b.t.Fatal(err)
	}
	return &bench{b.t, b.e, c}
}

// request makes a call with a query or a body, and returns the status and the answer.
func (b *bench) request(method, path string, query url.Values, body string) (int, kernel.Object) {
	b.t.Helper()
	if query == nil {
		query = url.Values{}
	}
	if !query.Has("api-version") {
		query.Set("api-version", api)
	}
	r, err := http.NewRequest(method, "https://localhost"+path+"?"+query.Encode(),
		strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.c.token)
	w := &recorder{header: http.Header{}}
	b.e.ServeHTTP(w, r)
	doc, _ := kernel.DecodeObject(w.body.Bytes()) // no body: nil
	return w.status, doc
}

// activity reads the activity log, newest first.
func (b *bench) activity() []kernel.Object {
	b.t.Helper()
	status, doc := b.request(http.MethodGet, "/subscriptions/"+sub+
		"/providers/Microsoft.Insights/eventtypes/management/values", url.Values{
		"$filter": {"eventTimestamp ge '" + dayAgo() + "'"}}, "")
	if status != 200 {
		b.t.Fatalf("the activity log: %d %v", status, doc)
	}
	return kernel.ListAt(doc, "value")
}

// says expects an error with its message.
func (b *bench) says(method string, id arm.ID, body string, status int, code, message string) {
	b.t.Helper()
	s, doc := b.request(method, string(id), nil, body)
	e := kernel.ObjectAt(doc, "error")
	if s != status || kernel.Text(e, "code") != code || kernel.Text(e, "message") != message {
		b.t.Errorf("%s %s: %d %s\n%s\nwant %d %s\n%s", method, id.Short(), s,
			kernel.Text(e, "code"),
			kernel.Text(e, "message"), status, code, message)
	}
}

// roleNamed returns the GUID of a built-in role.
func roleNamed(t *testing.T, name string) string {
	i := slices.IndexFunc(authorization.BuiltInRoles, func(r authorization.Role) bool {
		return r.Name == name
	})
	if i < 0 {
		t.Fatalf("no role %s", name)
	}
	return authorization.BuiltInRoles[i].Guid
}

// grant assigns a built-in role and returns the assignment.
func (b *bench) grant(n int, scope arm.ID, principal, roleName string) arm.ID {
	b.t.Helper()
	id := scope + arm.ID(fmt.Sprintf("/providers/%s/a5000000-0000-4000-8000-%012d",
		arm.TypeRoleAssignment, n))
	b.put(id, fmt.Sprintf(`{"properties":{"roleDefinitionId":%q,"principalId":%q}}`,
		authorization.RoleID(sub, roleNamed(b.t, roleName)), principal))
	return id
}

func TestRoles(t *testing.T) {
	b, g := withGuest(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(rt+"2", `{"location":"westeurope"}`)
	const table = `{"location":"westeurope"}`
	g.says(http.MethodGet, rt, "", 403, "AuthorizationFailed", "The client '"+guest.ClientID+
		"' with object id '"+guest.ObjectID+"' does not have authorization to perform action "+
		"'Microsoft.Network/routeTables/read' over scope '"+string(rt)+"' or the scope is "+
		"invalid. If access was recently granted, please refresh your credentials.")
	// whether it exists is not revealed
	g.refused(http.MethodGet, rt+"-none", "", 403, "AuthorizationFailed")
	g.refused(http.MethodGet, "/subscriptions/"+sub, "", 403, "AuthorizationFailed")

	reader := b.grant(1, rt, guest.ObjectID, "Reader")
	g.get(rt)
	g.refused(http.MethodPut, rt, table, 403, "AuthorizationFailed")
	g.refused(http.MethodDelete, rt, "", 403, "AuthorizationFailed")
	g.refused(http.MethodPut, rt.Child("routes", "r"),
		`{"properties":{"addressPrefix":"10.9.0.0/16","nextHopType":"None"}}`, 403,
		"AuthorizationFailed")
	g.refused(http.MethodGet, rt+"2", "", 403, "AuthorizationFailed")
	g.get("/subscriptions/" + sub) // a role below is enough to see the subscription

	// Lists show the readable resources, and are refused without any.
	list := "/subscriptions/" + arm.ID(sub) + "/providers/Microsoft.Network/routeTables"
	if got := names(kernel.ListAt(g.get(list), "value")); !slices.Equal(got, []string{"rt"}) {
		t.Errorf("the guest's list has %v", got)
	}
	if got := names(kernel.ListAt(b.get(list), "value")); !slices.Equal(got,
		[]string{"rt", "rt2"}) {
		t.Errorf("the owner's list has %v", got)
	}
	other := arm.ID("/subscriptions/" + sub + "/resourceGroups/other")
	b.put(other, table)
	g.refused(http.MethodGet, other+"/providers/Microsoft.Network/routeTables", "", 403,
		"AuthorizationFailed")

	// Linked resources need their join action; a subnet that keeps a link needs it as well.
	b.grant(2, vnet, guest.ObjectID, "Network Contributor")
	a := vnet.Child("subnets", "a")
	linked := `{"properties":{"addressPrefix":"10.0.1.0/24","routeTable":{"id":"` + string(rt) +
		`"}}}`
	g.says(http.MethodPut, a, linked, 403, "LinkedAuthorizationFailed", "The client '"+
		guest.ClientID+"' with object id '"+guest.ObjectID+"' has permission to perform action "+
		"'Microsoft.Network/virtualNetworks/subnets/write' on scope '"+string(a)+"'; however, it "+
		"does not have permission to perform action(s) "+
		"'Microsoft.Network/routeTables/join/action' on the linked scope(s) '"+string(rt)+
		"' (respectively) or the linked scope(s) are invalid.")
	g.refused(http.MethodPut, vnet, plainVNet, 403, "LinkedAuthorizationFailed")
	g.put(a, `{"properties":{"addressPrefix":"10.0.1.0/24"}}`)
	joiner := "b0000000-0000-4000-8000-000000000001"
	b.put(arm.ID(authorization.RoleID(sub, joiner)),
		`{"properties":{"roleName":"Table joiner","assignableScopes":["/subscriptions/`+sub+
			`"],"permissions":[{"actions":["microsoft.network/ROUTETABLES/*"],"notActions":["Microsoft.Network/routeTables/write"]}]}}`)
	b.put(rt+"/providers/Microsoft.Authorization/roleAssignments/a5000000-0000-4000-8000-000000000003", fmt.Sprintf(`{"properties":{"roleDefinitionId":%q,"principalId":%q,"principalType":"ServicePrincipal"}}`, authorization.RoleID(sub, joiner), guest.ObjectID))
	g.put(a, linked)
	g.refused(http.MethodPut, rt, table, 403, "AuthorizationFailed") // its notActions

	// A role ends with its assignment.
	if status, doc := b.request(http.MethodDelete, string(reader), nil, ""); status != 200 ||
		kernel.Text(doc, "properties", "principalId") != guest.ObjectID {
		t.Errorf("DELETE of the assignment: %d %v", status, doc)
	}
	if status, _ := b.request(http.MethodDelete, string(reader), nil, ""); status != 204 {
		t.Errorf("and again: %d", status)
	}
	g.get(rt) // the custom role still reads
	b.refused(http.MethodGet, reader, "", 404, "RoleAssignmentNotFound")
	b.refused(http.MethodDelete, arm.ID(authorization.RoleID(sub, joiner)), "", 400,
		"RoleDefinitionHasAssignments")

	// A contributor can write everything except roles.
	b.grant(4, group, guest.ObjectID, "Contributor")
	g.put(rt, table)
	g.refused(http.MethodPut,
		rt+"/providers/Microsoft.Authorization/roleAssignments/a5000000-0000-4000-8000-000000000009", `{}`, 403, "AuthorizationFailed")
	g.refused(http.MethodPut, other, table, 403, "AuthorizationFailed")
	if got := names(kernel.ListAt(g.get("/subscriptions/"+arm.ID(sub)+"/resourceGroups"),
		"value")); !slices.Equal(got, []string{"net-rg"}) {
		t.Errorf("the guest's groups: %v", got)
	}
	found := 0
	for _, r := range g.activity() {
		if !strings.EqualFold(kernel.Text(r, "resourceGroupName"), "net-rg") {
			t.Errorf("the guest reads of %s", kernel.Text(r, "resourceId"))
		}
		if kernel.Text(r, "authorization", "action") == "Microsoft.Network/routeTables/write" &&
			kernel.Text(r, "status", "value") == "Failed" &&
			kernel.Text(r, "caller") == guest.ObjectID {
			found++
		}
	}
	if found == 0 {
		t.Error("no refused write of the guest in the activity log")
	}
}

// TestStrictLists: with the option StrictLists, a list is refused if the caller may read only a
// part of it.
func TestStrictLists(t *testing.T) {
	b, g := withGuest(t, Options{StrictLists: true})
	b.put(rt, `{"location":"westeurope"}`)
	b.grant(1, rt, guest.ObjectID, "Reader")
	tables := group + "/providers/Microsoft.Network/routeTables"
	g.refused(http.MethodGet, tables, "", 403, "AuthorizationFailed")
	b.grant(2, group, guest.ObjectID, "Reader")
	g.get(tables)
}

func TestRoleAssignments(t *testing.T) {
	b, _ := withGuest(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	at := func(scope arm.ID, n int) arm.ID {
		return scope + arm.ID(fmt.Sprintf("/providers/%s/a5000000-0000-4000-8000-%012d",
			arm.TypeRoleAssignment, n))
	}
	body := func(role, principal, more string) string {
		return fmt.Sprintf(`{"properties":{"roleDefinitionId":%q,"principalId":%q%s}}`,
			authorization.RoleID(sub, role), principal, more)
	}
	reader, stranger := roleNamed(t, "Reader"), "57a00000-0000-4000-8000-000000000001"
	for _, tt := range []struct {
		id     arm.ID
		body   string
		status int
		code   string
	}{
		{group + "/providers/Microsoft.Authorization/roleAssignments/mine",
			body(reader, guest.ObjectID, ""), 400, "InvalidRoleAssignmentId"},
		{at(group, 1), body("acdd72a7-0000-0000-0000-000000000000", guest.ObjectID, ""), 404,
			"RoleDefinitionDoesNotExist"},
		{at(group, 1), body(reader, stranger, ""), 400, "PrincipalNotFound"},
		{at(group, 1), body(reader, "x", ""), 400, "InvalidPrincipalId"},
		{at(group, 1), body(reader, guest.ObjectID, `,"principalType":"User"`), 400,
			"UnmatchedPrincipalType"},
		{at(rt+"-none", 1), body(reader, guest.ObjectID, ""), 404, "ResourceNotFound"},
		{at(group, 1), body(reader, stranger, `,"principalType":"ServicePrincipal"`), 201, ""},
		{at(group, 2), body(reader, guest.ObjectID, ""), 201, ""},
		{at(group, 2), body(reader, guest.ObjectID, ""), 201, ""}, // the same again
		{at(group, 3), body(reader, guest.ObjectID, ""), 409, "RoleAssignmentExists"},
		{at(group, 2), body(authorization.NetworkContributor, guest.ObjectID, ""), 400,
			"RoleAssignmentUpdateNotPermitted"},
		{at(rt, 4), body(reader, guest.ObjectID, ""), 201, ""},
		{at("/subscriptions/"+arm.ID(sub), 5),
			body(authorization.NetworkContributor, guest.ObjectID, ""), 201, ""},
	} {
		if status, code := b.try(http.MethodPut, tt.id, "2022-04-01",
			tt.body); status != tt.status || code != tt.code {
			t.Errorf("PUT %s %s: %d %s, want %d %s", tt.id.Name(), tt.body, status, code, tt.status,
				tt.code)
		}
	}
	doc := b.get(at(group, 2))
	p := kernel.ObjectAt(doc, "properties")
	if kernel.Text(p, "scope") != string(group) ||
		kernel.Text(p, "principalType") != "ServicePrincipal" ||
		kernel.Text(p, "createdBy") != DefaultPrincipal.ObjectID ||
		kernel.Text(doc, "type") != arm.TypeRoleAssignment ||
		p["provisioningState"] != nil ||
		doc["etag"] != nil {
		t.Errorf("%s", kernel.Encode(doc))
	}
	query := func(scope, filter string) string {
		status, doc := b.request(http.MethodGet, scope+
			"/providers/Microsoft.Authorization/roleAssignments", url.Values{
			"$filter": {filter}}, "")
		if status != 200 {
			t.Fatalf("%d %v", status, doc)
		}
		var last []string
		for _, d := range kernel.ListAt(doc, "value") {
			last = append(last, kernel.Text(d, "name")[35:])
		}
		slices.Sort(last)
		return strings.Join(last, "")
	}
	for _, tt := range []struct{ scope, filter, want string }{
		{string(group), "principalId eq '" + guest.ObjectID + "'", "245"},
		{string(group), "atScope()", "125"},
		{string(group), "atScope() and assignedTo('" + guest.ObjectID + "')", "25"},
		{string(rt), "assignedTo('" + guest.ObjectID + "')", "245"},
		{"/subscriptions/" + sub, "", "1245"},
		{"/subscriptions/" + sub, "atScope()", "5"},
	} {
		if got := query(tt.scope, tt.filter); got != tt.want {
			t.Errorf("%s %q: %q, want %q", arm.ID(tt.scope).Name(), tt.filter, got, tt.want)
		}
	}
	// The assignments on a resource are deleted with it.
	if status, _ := b.try(http.MethodDelete, rt, api, ""); status != 200 {
		t.Fatal(status)
	}
	if got := query("/subscriptions/"+sub, "principalId eq '"+guest.ObjectID+"'"); got != "25" {
		t.Errorf("after the table: %q", got)
	}
}

func TestRoleDefinitions(t *testing.T) {
	b, g := withGuest(t, Options{})
	for _, scope := range []string{"", "/subscriptions/" + sub, string(group)} {
		status, doc := b.request(http.MethodGet, scope+
			"/providers/Microsoft.Authorization/roleDefinitions", url.Values{
			"$filter": {"roleName eq 'network contributor'"}}, "")
		all := kernel.ListAt(doc, "value")
		if status != 200 || len(all) != 1 ||
			kernel.Text(all[0], "name") != "4d97b98b-1d4f-4787-a291-c67834d212e7" ||
			kernel.Text(all[0], "properties", "type") != "BuiltInRole" {
			t.Errorf("%q: %d %s", scope, status, kernel.Encode(doc))
		}
	}
	doc := g.get("/providers/Microsoft.Authorization/roleDefinitions/" +
		"acdd72a7-3385-48ef-bd42-f606fba81ae7")
	if kernel.Text(doc, "properties", "roleName") != "Reader" {
		t.Errorf("%s", kernel.Encode(doc))
	}
	b.refused(http.MethodGet,
		arm.ID(authorization.RoleID(sub, "acdd72a7-0000-0000-0000-000000000000")), "", 404,
		"RoleDefinitionDoesNotExist")
	b.refused(http.MethodPut,
		arm.ID(authorization.RoleID(sub, "b0000000-0000-4000-8000-000000000001")),
		`{"properties":{"roleName":"reader","assignableScopes":["/subscriptions/`+sub+
			`"],"permissions":[{"actions":["*"]}]}}`, 409, "RoleDefinitionWithSameNameExists")

	// Permissions are the caller's own.
	b.grant(1, group, guest.ObjectID, "Reader")
	b.put(rt, `{"location":"westeurope"}`)
	for who, want := range map[*bench]string{b: "*", g: "*/read"} {
		doc := who.get(rt + "/providers/Microsoft.Authorization/permissions")
		if all := kernel.ListAt(doc, "value"); len(all) != 1 ||
			!slices.Equal(kernel.List(all[0], "actions"), []string{want}) {
			t.Errorf("permissions %s, want %s", kernel.Encode(doc), want)
		}
	}
	for _, tt := range []struct {
		pattern, action string
		want            bool
	}{
		{"*", "a/b/read", true},
		{"*/read", "a/b/read", true},
		{"*/read", "a/b/write", false},
		{"Microsoft.Network/*", "microsoft.network/routeTables/join/action", true},
		{"Microsoft.Authorization/*/write", "Microsoft.Authorization/roleAssignments/write", true},
		{"Microsoft.Authorization/*/write", "Microsoft.Authorization/roleAssignments/read", false},
		{"a/*/read", "a/read", true},
		{"a/*b*/c", "a/xbyb/c", true},
		{"a/read", "a/reads", false},
	} {
		if got := authorization.MatchAction(tt.pattern, tt.action); got != tt.want {
			t.Errorf("%s matches %s: %v", tt.pattern, tt.action, got)
		}
	}
}

// TestRoleDelay: a new assignment takes effect after its delay; a control call can set another one.
func TestRoleDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, g := withGuest(t, Options{RoleDelay: time.Hour})
		b.put(rt, `{"location":"westeurope"}`)
		id := b.grant(1, group, guest.ObjectID, "Reader")
		token, err := g.c.login()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour - time.Second)
		g.refused(http.MethodGet, rt, "", 403, "AuthorizationFailed")
		time.Sleep(time.Second)
		// a token is valid for an hour
		(&bench{t, b.e, withToken(b.e, token)}).refused(http.MethodGet, rt, "", 401,
			"ExpiredAuthenticationToken")
		g.get(rt)
		control := func(body string) int {
			r, err := http.NewRequest(http.MethodPost, "http://h/_emulator/roles",
				strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			w := &recorder{header: http.Header{}}
			b.e.ServeHTTP(w, r)
			return w.status
		}
		if status := control(fmt.Sprintf(`{"assignment":%q,"delay":"10m"}`, id)); status != 200 {
			t.Fatal(status)
		}
		g.refused(http.MethodGet, rt, "", 403, "AuthorizationFailed")
		time.Sleep(10 * time.Minute)
		g.get(rt)
		if status := control(`{"assignment":"/none","delay":"10m"}`); status != 400 {
			t.Errorf("for no assignment: %d", status)
		}
	})
}
