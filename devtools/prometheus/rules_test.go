// Prometheus' own judgement of alert rules: whether it reads the file RULES, and whether the expressions in SCRIPT have
// the values that it says, in the language of Prometheus' own tests.
package rules

import (
	"os"
	"testing"

	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/promqltest"
)

func TestRules(t *testing.T) {
	if _, errors := rulefmt.ParseFile(os.Getenv("RULES"), false); errors != nil {
		t.Fatal(errors)
	}
}

func TestScript(t *testing.T) {
	script, err := os.ReadFile(os.Getenv("SCRIPT"))
	if err != nil {
		t.Fatal(err)
	}
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	promqltest.RunTest(t, string(script), engine)
}
