package azure

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// TestSeen: an unchanged document is not decoded again, a changed one is, and one that is no longer
// read is dropped.
func TestSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k seen
		decoded := 0
		read := func(id arm.ID, raw, want string) {
			t.Helper()
			got, err := k.decode(id, []byte(raw), func(raw []byte) (any, error) {
				decoded++
				if len(raw) == 0 {
					return "", errors.New("nothing")
				}
				return string(raw), nil
			})
			if got != want || (err == nil) != (want != "") {
				t.Errorf("%q reads %q, %v", raw, got, err)
			}
		}
		expect := func(wantDecoded, wantCached int) {
			t.Helper()
			if decoded != wantDecoded || len(k.docs) != wantCached {
				t.Errorf("%d times decoded, %d cached; want %d, %d", decoded, len(k.docs),
					wantDecoded, wantCached)
			}
		}
		read("/a", "one", "one")
		read("/A", "one", "one")
		expect(1, 1)
		read("/a", "two", "two")
		read("/b", "two", "two")
		expect(3, 2)
		read("/b", "", "")
		expect(4, 2)
		read("/b", "two", "two")
		expect(4, 2)
		for range 4 {
			time.Sleep(seenFor / 2)
			read("/a", "two", "two")
		}
		expect(4, 1)
		read("/b", "two", "two")
		expect(5, 2)
	})
}
