package azure_test

import (
	"context"
	"encoding/base64"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestOwn: a change is the client's own if resource, identity and call match. A second program with
// the same identity makes different calls.
func TestOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := emulatortest.New(t, emulator.Options{})
		ids := tables(t, e, 1, 2, 2)
		change := func(doc arm.Document) ([]byte, error) {
			table, err := inventory.DecodeRouteTable(doc.Raw)
			if err != nil || len(table.Routes()) > 0 {
				return nil, err
			}
			return inventory.SetRoutes(doc.Raw,
				[]inventory.Route{inventory.NewRoute("r", netip.MustParsePrefix("10.1.0.0/24"),
					netip.MustParseAddr("10.2.0.4"))})
		}
		c, twin := emulatortest.Client(t, e, emulatortest.Keeper), emulatortest.Client(t, e,
			emulatortest.Keeper)
		if _, err := c.Write(t.Context(), ids[0], change, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := twin.Write(t.Context(), ids[1], change, nil); err != nil {
			t.Fatal(err)
		}
		call := func(id arm.ID) string { // as the activity log, and so every event, has it
			t.Helper()
			last, known, err := c.LastWrite(t.Context(), id)
			if err != nil || !known {
				t.Fatal(known, err)
			}
			return last.Correlation
		}
		own, others := call(ids[0]), call(ids[1])
		me := []string{emulatortest.Keeper.ObjectID}
		for what, got := range map[string]bool{
			"its own":                 c.Wrote(own, me, ids[0]),
			"by the client ID":        c.Wrote(own, []string{emulatortest.Keeper.ClientID}, ids[0]),
			"not of another resource": !c.Wrote(own, me, ids[1]),
			"not of another caller": !c.Wrote(own, []string{emulatortest.Operator.ObjectID},
				ids[0]),
			"without a caller":          !c.Wrote(own, nil, ids[0]),
			"not in another call":       !c.Wrote(others, me, ids[1]),
			"not in no call":            !c.Wrote("", me, ids[0]),
			"the other's is the others": twin.Wrote(others, me, ids[1]),
		} {
			if !got {
				t.Errorf("wrong: %s", what)
			}
		}
	})
}

// logins counts logins, each with a token for an hour.
type logins int

func (l *logins) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	*l++
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"oid":"A1","appid":"B2"}`))
	return azcore.AccessToken{Token: "." + claims + ".", ExpiresOn: time.Now().Add(time.Hour)}, nil
}

// TestWho: the client learns once in a token's life who it is: the Azure CLI's credential starts az
// at each login.
func TestWho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n logins
		c, err := azure.New(&n, azure.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for want := logins(1); want <= 2; want++ {
			for range 3 {
				object, application, err := c.Who(t.Context())
				if object != "a1" || application != "b2" || err != nil || n != want {
					t.Errorf("%s, %s, %v after %d logins, expected %d", object, application, err, n,
						want)
				}
			}
			time.Sleep(time.Hour)
		}
	})
}
