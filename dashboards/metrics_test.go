package dashboards_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// A metric is what a name stands for.
type metric struct {
	kind   dto.MetricType
	labels []string
}

// metrics are all of lockmw, written down here once more: boards and alerts of users are
// made of them, so a change of a name is a break.
var metrics = map[string]metric{
	"lockmw_acquire_duration_seconds":        {dto.MetricType_HISTOGRAM, []string{"mode", "name", "outcome"}},
	"lockmw_hold_duration_seconds":           {dto.MetricType_HISTOGRAM, []string{"mode", "name"}},
	"lockmw_held":                            {dto.MetricType_GAUGE, []string{"name"}},
	"lockmw_waiting":                         {dto.MetricType_GAUGE, []string{"name"}},
	"lockmw_handovers_total":                 {dto.MetricType_COUNTER, []string{"mode", "name"}},
	"lockmw_refused_total":                   {dto.MetricType_COUNTER, []string{"mode", "name", "reason"}},
	"lockmw_lost_total":                      {dto.MetricType_COUNTER, []string{"mode", "name"}},
	"lockmw_failed_open_total":               {dto.MetricType_COUNTER, []string{"mode", "name"}},
	"lockmw_stuck_total":                     {dto.MetricType_COUNTER, []string{"mode", "name"}},
	"lockmw_stale_writes_total":              {dto.MetricType_COUNTER, []string{"mode", "name"}},
	"lockmw_unfenced_writes_total":           {dto.MetricType_COUNTER, []string{"mode", "name"}},
	"lockmw_answers_total":                   {dto.MetricType_COUNTER, []string{"mode", "name", "outcome"}},
	"lockmw_renewals_total":                  {dto.MetricType_COUNTER, []string{"outcome"}},
	"lockmw_shadow":                          {dto.MetricType_GAUGE, []string{"name"}},
	"lockmw_shadow_acquire_duration_seconds": {dto.MetricType_HISTOGRAM, []string{"mode", "name", "outcome"}},
	"lockmw_shadow_refused_total":            {dto.MetricType_COUNTER, []string{"mode", "name", "reason"}},
	"lockmw_shadow_overlaps_total":           {dto.MetricType_COUNTER, []string{"mixed", "mode", "name"}},
	"lockmw_shadow_incomplete_total":         {dto.MetricType_COUNTER, []string{"mode", "name"}},
	"lockmw_redis_up":                        {dto.MetricType_GAUGE, nil},
	"lockmw_off":                             {dto.MetricType_GAUGE, []string{"name"}},
	"lockmw_settings":                        {dto.MetricType_GAUGE, []string{"field"}},
	"lockmw_settings_refused":                {dto.MetricType_GAUGE, nil},
	"lockmw_settings_age_seconds":            {dto.MetricType_GAUGE, []string{"source"}},
}

// checkMetrics compares a page of metrics with what there should be.
func checkMetrics(t *testing.T, page string) {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for name, family := range families {
		if !strings.HasPrefix(name, "lockmw_") {
			continue
		}
		seen[name] = true
		want, ok := metrics[name]
		if !ok {
			t.Errorf("%s is not one of the metrics", name)
			continue
		}
		if family.GetType() != want.kind || family.GetHelp() == "" {
			t.Errorf("%s is a %v (%q), want a %v with a help", name, family.GetType(), family.GetHelp(), want.kind)
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
			}
			if slices.Sort(labels); !slices.Equal(labels, want.labels) {
				t.Errorf("%s has the labels %q, want %q", name, labels, want.labels)
				break
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		if !seen[name] {
			t.Errorf("%s is not there", name)
		}
	}
}

// selects returns the metric that a series' name belongs to, which for a histogram is not
// the same.
func selects(series string) (metric, bool) {
	if m, ok := metrics[series]; ok && m.kind != dto.MetricType_HISTOGRAM {
		return m, true
	}
	for _, part := range []string{"_bucket", "_count", "_sum"} {
		if name, ok := strings.CutSuffix(series, part); ok && metrics[name].kind == dto.MetricType_HISTOGRAM {
			m := metrics[name]
			if part == "_bucket" {
				m.labels = append(slices.Clone(m.labels), "le")
			}
			return m, true
		}
	}
	return metric{}, false
}
