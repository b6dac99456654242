package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"hushgram.dev/client"
)

func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202) }))
	defer server.Close()
	folder, err := os.MkdirTemp("", "device")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	data, err := os.ReadFile(filepath.Join("testdata", "commute.json"))
	if err != nil {
		log.Fatal(err)
	}

	manifest, err := client.Load(data, 1.0) // the largest ε of a report, fixed in the app
	if err != nil {
		log.Fatal(err)
	}
	reporter, err := client.Open(manifest, folder)
	if err != nil {
		log.Fatal(err)
	}
	for _, minutes := range []float64{37.5, 41, 36} {
		switch err := reporter.Report(minutes, "DE"); {
		case errors.Is(err, client.ErrBudget): // in this period the device has said enough
			fmt.Println("refused")
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println("reported")
		}
	}
	sender, err := client.NewSender(folder, server.URL, nil)
	if err != nil {
		log.Fatal(err)
	}
	wait, err := sender.Send(context.Background())
	fmt.Println(wait, err)
	// Output:
	// reported
	// reported
	// refused
	// 0s <nil>
}
