"""What the fragments of code in the documentation take for granted."""

import time

from distributed import Client, LocalCluster

import taskmeter

url = "https://example.com"


def slow(number):
    time.sleep(0.01)
    return number


def fetch(address):
    return address


train, seeds = slow, range(3)
download, urls = fetch, [url]


cluster = LocalCluster(n_workers=2, processes=False, dashboard_address=":0")
client = Client(cluster)
taskmeter.install(client)
futures = client.map(slow, range(3))
