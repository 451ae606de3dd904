package history

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
)

// standing is the step that writes the findings of the last check, so that a new program does not
// report them as new.
type standing struct{ known map[string]finding.Finding }

func (s *standing) write(b *batch) error {
	if _, err := b.Exec("DELETE FROM standing"); err != nil {
		return err
	}
	for key, f := range s.known {
		if _, err := b.Exec("INSERT INTO standing (key, finding) VALUES (?, ?)", key,
			document(f)); err != nil {
			return err
		}
	}
	return nil
}

func readStanding(q querier) (map[string]finding.Finding, error) {
	return readAll[finding.Finding](q, "SELECT key, finding FROM standing")
}

// readAll reads rows with a key and a document.
func readAll[V any](q querier, query string) (map[string]V, error) {
	all := map[string]V{}
	err := each(q, func(scan scanner) error {
		var key string
		var v V
		err := scan(&key, kept{&v})
		all[key] = v
		return err
	}, query)
	return all, err
}

// remembered is the step that writes what a keeper must not forget.
type remembered struct{ clusters map[string]keeper.Lasting }

func (r *remembered) write(b *batch) error {
	for cluster, what := range r.clusters {
		if _, err := b.Exec("INSERT INTO memory (cluster, document) VALUES (?, ?) ON CONFLICT "+
			"(cluster) DO UPDATE SET document = excluded.document", cluster,
			document(what)); err != nil {
			return err
		}
	}
	return nil
}

// Keep writes what a keeper must not forget, by the cluster's ID.Key().
func (l *Log) Keep(clusters map[string]keeper.Lasting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.j.add(&remembered{clusters})
	l.write()
}

// Recall reads what earlier keepers wrote, or nothing if the file cannot be read.
func (l *Log) Recall() map[string]keeper.Lasting {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.j.trouble != nil {
		return nil
	}
	all, err := readLasting(l.j.db)
	if err != nil {
		l.opts.Log.Warn("the remembered state cannot be read", "file", l.j.path, "error",
			reason(err))
	}
	return all
}

// readLasting reads what keepers must not forget. If a clock has gone back since then, what began
// in the future begins now. Otherwise a node without a route would stay a warning until that time.
func readLasting(q querier) (map[string]keeper.Lasting, error) {
	all, err := readAll[keeper.Lasting](q, "SELECT cluster, document FROM memory")
	now := time.Now()
	for _, known := range all {
		for node, lack := range known.Lacks {
			if lack.Since.After(now) {
				lack.Since = now
				known.Lacks[node] = lack
			}
		}
		if v := known.Verdict; v != nil && v.Since.After(now) {
			v.Since = now
		}
	}
	return all, err
}

// Former returns the last known values of subnets, by ID.Key(). They come from the keeper's memory,
// and from the associations that an older keeper made or observed. It does not change the file.
func Former(path string, subnets []arm.ID) (map[string][]inventory.Former, error) {
	if err := regular(path); err != nil {
		return nil, err
	}
	r, err := readOnly(path)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %s", path, reason(err))
	}
	defer r.Close()
	lasting, err := readLasting(r.db)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %s", path, reason(err))
	}
	values := map[string]map[inventory.Property]arm.ID{}
	for _, id := range subnets {
		of := map[inventory.Property]arm.ID{}
		for _, key := range slices.Sorted(maps.Keys(lasting)) {
			maps.Copy(of, lasting[key].Had[id.Key()])
		}
		values[id.Key()] = of
	}
	if err := r.Each(Query{}, func(e Entry) error {
		for _, c := range e.Changes {
			property, id := c.New.Associated()
			of := values[c.Resource.Key()]
			if _, known := of[property]; of != nil && id != "" && !known {
				of[property] = id
			}
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %s", path, reason(err))
	}
	all := map[string][]inventory.Former{}
	for key, of := range values {
		for _, property := range inventory.Properties {
			if value := of[property]; value != "" {
				all[key] = append(all[key],
					inventory.Former{Property: property, Value: value, How: "the history " + path})
			}
		}
	}
	return all, nil
}

// Recalled returns a store with the content of a history, for a keeper that only plans. It stores
// nothing. A file that does not exist or cannot be read is an empty store.
func Recalled(path string) keeper.Store {
	r, err := readOnly(path)
	if err != nil {
		return recalled{}
	}
	defer r.Close()
	all, err := readLasting(r.db)
	if err != nil {
		return recalled{}
	}
	return recalled{all}
}

type recalled struct{ all map[string]keeper.Lasting }

func (r recalled) Recall() map[string]keeper.Lasting { return r.all }
func (recalled) Keep(map[string]keeper.Lasting)      {}
