"""A broker that asks who is there, and lets a clerk read some topics, write to some, and know nothing of others."""

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from devtools import Broker

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required username=admin password=secret"
PROPERTIES = {
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.clients.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.clients.plain.sasl.jaas.config": f"{MODULE} user_admin=secret user_clerk=secret;",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}
RIGHTS_OF_THE_CLERK = {"reports": ("READ", "WRITE"), "readable": ("READ",), "writable": ("WRITE",), "hidden": ()}


def login(user, password="secret"):
    """What a client's file of properties holds."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
    }


class GuardedBroker(Broker):
    """With a topic for each of the clerk's rights."""

    def __init__(self, directory):
        super().__init__(directory, properties=PROPERTIES, client=login("admin"))

    def _start(self):
        super()._start()
        for topic in RIGHTS_OF_THE_CLERK:
            self.create_topic(topic)
        allowed = [
            AclBinding(
                *(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:clerk", "*"),
                *(AclOperation[operation], AclPermissionType.ALLOW),
            )
            for topic, operations in RIGHTS_OF_THE_CLERK.items()
            for operation in operations
        ]
        admin = AdminClient({"bootstrap.servers": self.address, **login("admin")})
        for done in admin.create_acls(allowed).values():
            done.result(30)
