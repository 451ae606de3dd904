package lab

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/prove"
)

var prover = emulator.Principal{Name: "prover", ClientID: "0c0c0000-0000-4000-8000-000000000003",
	Secret: "s", ObjectID: "0d0d0000-0000-4000-8000-000000000003", NoRoles: true}

// granting gives the caller of prove a role with some actions.
func granting(actions []string) func(t *testing.T, e *emulator.Emulator) {
	return func(t *testing.T, e *emulator.Emulator) {
		t.Helper()
		op, err := e.Client(emulatortest.Keeper)
		if err != nil {
			t.Fatal(err)
		}
		const guid = "0e0e0000-0000-4000-8000-000000000004"
		at := arm.ID("/subscriptions/" + emulator.DefaultSubscription +
			"/providers/Microsoft.Authorization/")
		for id, properties := range map[arm.ID]object{
			at + "roleDefinitions/" + guid: {"roleName": "prove",
				"assignableScopes": []any{"/subscriptions/" + emulator.DefaultSubscription},
				"permissions":      []any{object{"actions": actions}}},
		} {
			if err := op.Put(id, authorizationVersion,
				object{"properties": properties}); err != nil {
				t.Fatal(err)
			}
		}
		err = op.Put(at+"roleAssignments/"+guid, authorizationVersion, object{"properties": object{
			"roleDefinitionId": string(at) + "roleDefinitions/" +
				guid, "principalId": prover.ObjectID}})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func rightFacts(t *testing.T) []string {
	all, _ := trialsOf(t)
	var names []string
	for _, f := range all {
		if strings.HasPrefix(f.Name, "right") {
			names = append(names, f.Name)
		}
	}
	return names
}

// TestExactRights: a login with the role of --print-role can make every trial, and shows that the
// generated rights suffice.
func TestExactRights(t *testing.T) {
	b := bench{as: prover, opts: slowly, prepare: granting(prove.Role())}
	for name, r := range b.run(t, nil) {
		if strings.HasPrefix(r.Seen, "403") || strings.Contains(r.Seen, "AuthorizationFailed") {
			t.Errorf("%s: %s", name, r.Seen)
		}
		if name == "rights-suffice" && r.Verdict != prove.Confirmed {
			t.Errorf("%s: %s, %s", name, r.Verdict, r.Seen)
		}
	}
}

// TestMissingRights: without any one right, a refusal confirms its fact and no other, and
// rights-suffice is not confirmed.
func TestMissingRights(t *testing.T) {
	// The emulator lets all callers read these, as Azure may, too.
	free := map[string]prove.Verdict{"right-locations-operations-read": prove.Differs}
	group := "Microsoft.Resources/"
	for _, action := range prove.Role() {
		_, path, _ := strings.Cut(action, "/")
		name := "right-" + strings.ReplaceAll(path, "/", "-")
		if !slices.Contains(rightFacts(t), name) || strings.HasPrefix(action, group) {
			continue // for the trials only
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			less := slices.DeleteFunc(prove.Role(), func(a string) bool { return a == action })
			b := bench{as: prover, opts: slowly, prepare: granting(less),
				facts: append(rightFacts(t), "log-delay")}
			results := b.run(t, func(e *emulator.Emulator, out Outcome, err error) {
				if left := groups(t, e); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			})
			want, odd := free[name]
			switch {
			case odd:
			case strings.Contains(results[name].Seen, "it needs a"):
				want = prove.Untested
			default:
				want = prove.Confirmed
			}
			if r := results[name]; r.Verdict != want {
				t.Errorf("%s: %s", r.Verdict, r.Seen)
			}
			for other, r := range results {
				if other != name && strings.HasPrefix(other, "right-") &&
					r.Verdict != prove.Untested {
					t.Errorf("%s: %s, %s", other, r.Verdict, r.Seen)
				}
			}
			if r := results["rights-suffice"]; want == prove.Confirmed &&
				r.Verdict != prove.Untested {
				t.Errorf("rights-suffice: %s, %s", r.Verdict, r.Seen)
			}
		})
	}
}

// TestOtherRights: the result if Azure requires more or less than the generated rights.
func TestOtherRights(t *testing.T) {
	write := "right-routeTables-write"
	for name, c := range map[string]struct {
		b    bench
		fact string
		want prove.Verdict
		seen string
	}{
		"owner":      {bench{}, "rights-suffice", prove.Untested, "has more rights (*)"},
		"owner, too": {bench{}, write, prove.Untested, "has it"},
		"asks for more": {bench{bends: []bend{refusing(func(r *http.Request) bool {
			return is(r, "DELETE", endTable)
		}, 403, "AuthorizationFailed", "x does not have authorization to perform action "+
			"'Microsoft.Network/routeTables/unjoin/action' over scope '/y'")}},
			"rights-suffice", prove.Untested, "has more rights"},
		"asks for more of a subnet": {bench{bends: []bend{refusing(func(r *http.Request) bool {
			return is(r, "PUT", endNodes)
		}, 403, "LinkedAuthorizationFailed",
			"x has permission to perform action 'Microsoft.Network/"+
				"virtualNetworks/subnets/write' on scope '/y'; however, it does not have "+
				"permission to perform action(s) 'Microsoft.Network/ipGroups/join/action' on the "+
				"linked scope(s) '/z'")}},
			"rights-suffice", prove.Differs,
			"takes Microsoft.Network/ipGroups/join/action as well"},
		"works without it": {bench{bends: []bend{lacking("Microsoft.Network/routeTables/write")}},
			write, prove.Differs, "accepted without it"},
		"not to be read": {bench{faults: forbidden("GET", "/permissions")}, write, prove.Untested,
			"could not be read"},
		"no list": {bench{bends: []bend{sets("GET", "/permissions", "value", "x")}}, write,
			prove.Untested, "not a list of permissions"},
		"a new role": {bench{bends: []bend{refusing(func(r *http.Request) bool {
			return is(r, "PUT", endNodes)
		}, 403, "AuthorizationFailed", "x does not have authorization to perform action "+
			"'Microsoft.Network/virtualNetworks/subnets/write' over scope '/y'")}},
			"right-virtualNetworks-subnets-write", prove.Untested,
			"a new role can take 10 minutes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.b.facts = []string{c.fact}
			r := c.b.run(t, nil)[c.fact]
			if r.Verdict != c.want || !strings.Contains(r.Seen, c.seen) {
				t.Errorf("%s: %q, want %s: %q", r.Verdict, r.Seen, c.want, c.seen)
			}
		})
	}
}

// lacking removes an action from the permissions.
func lacking(action string) bend {
	of := func(r *http.Request) bool { return is(r, "GET", "/permissions") }
	return answers(of, func(body []byte, _ http.Header, status int) ([]byte, int) {
		for i := range gjson.GetBytes(body, "value").Array() {
			body = set(body, "value."+strconv.Itoa(i)+".notActions", []any{action})
		}
		return body, status
	})
}
