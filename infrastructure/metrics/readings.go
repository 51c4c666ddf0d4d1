package metrics

import "github.com/prometheus/client_golang/prometheus"

// Readings are what is read whenever somebody scrapes.
type Readings struct {
	// Queued is how many hits wait, of Queue that may.
	Queued, Queue int
	// Uncounted is how many refusals were answered that the store has not counted yet.
	Uncounted int64
	// StoreDown says that the store decides nothing.
	StoreDown bool
	// Unlogged is how many calls were counted and are not in the log yet, which is kept
	// elsewhere; nil if it is not.
	Unlogged *int
	// LogRows is how many rows the log has, DatabaseBytes how long the database is, WALBytes
	// how long its write-ahead log. Nil if there is no such thing, or nobody could tell.
	LogRows, DatabaseBytes, WALBytes *int64
}

// Read exports what read returns, which is called at each scrape. Call it once.
func (m *Metrics) Read(read func() Readings) { m.registry.MustRegister(readings(read)) }

type readings func() Readings

// gauges are what is exported of readings.
var gauges = []struct {
	desc  *prometheus.Desc
	value func(*Readings) (value float64, known bool)
}{
	{gauge("queued_hits", "Hits that wait for the store."), func(r *Readings) (float64, bool) { return float64(r.Queued), true }},
	{gauge("queue_capacity_hits", "Hits that may wait; further ones are undecided."), func(r *Readings) (float64, bool) { return float64(r.Queue), true }},
	{gauge("uncounted_refusals", "Refusals that were answered from memory and are not counted in the store yet."), func(r *Readings) (float64, bool) { return float64(r.Uncounted), true }},
	{gauge("store_down", "1 while the store decides nothing, because it does not answer or takes nothing, else 0."), func(r *Readings) (float64, bool) {
		if r.StoreDown {
			return 1, true
		}
		return 0, true
	}},
	{gauge("unlogged_calls", "Calls that were counted and are not in the audit log yet, which is kept elsewhere."), func(r *Readings) (float64, bool) { return optional(r.Unlogged) }},
	{gauge("log_rows", "Rows of the audit log; an estimate on PostgreSQL."), func(r *Readings) (float64, bool) { return optional(r.LogRows) }},
	{gauge("database_bytes", "Length of the SQLite file, or of the tables and indexes on PostgreSQL."), func(r *Readings) (float64, bool) { return optional(r.DatabaseBytes) }},
	{gauge("wal_bytes", "Length of the write-ahead log of the SQLite file."), func(r *Readings) (float64, bool) { return optional(r.WALBytes) }},
}

func gauge(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, nil, nil)
}

func optional[T int | int64](value *T) (float64, bool) {
	if value == nil {
		return 0, false
	}
	return float64(*value), true
}

func (readings) Describe(descs chan<- *prometheus.Desc) {
	for i := range gauges {
		descs <- gauges[i].desc
	}
}

func (read readings) Collect(metrics chan<- prometheus.Metric) {
	r := read()
	for i := range gauges {
		if value, known := gauges[i].value(&r); known {
			metrics <- prometheus.MustNewConstMetric(gauges[i].desc, prometheus.GaugeValue, value)
		}
	}
}
