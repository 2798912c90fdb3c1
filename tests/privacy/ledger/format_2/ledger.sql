BEGIN TRANSACTION;
CREATE TABLE sotto_cap (
	data_set INTEGER NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	name VARCHAR(128) NOT NULL, 
	member_of VARCHAR(128), 
	epsilon VARCHAR(64) NOT NULL, 
	failure_delta VARCHAR(64) NOT NULL, 
	cap BIGINT NOT NULL, 
	spent BIGINT NOT NULL, 
	failure_cap BIGINT NOT NULL, 
	failure_spent BIGINT NOT NULL, 
	answers BIGINT NOT NULL, 
	PRIMARY KEY (data_set, kind, name), 
	CHECK (cap >= 0 AND spent >= 0 AND spent <= cap), 
	CHECK (failure_spent >= 0 AND failure_spent <= failure_cap), 
	FOREIGN KEY(data_set) REFERENCES sotto_data_set (id)
);
CREATE TABLE sotto_data_set (
	id INTEGER NOT NULL, 
	name VARCHAR(128) NOT NULL, 
	adjacency VARCHAR(32) NOT NULL, 
	unit VARCHAR(128) NOT NULL, 
	epsilon VARCHAR(64) NOT NULL, 
	delta VARCHAR(64) NOT NULL, 
	cap BIGINT NOT NULL, 
	spent BIGINT NOT NULL, 
	failure_delta VARCHAR(64) DEFAULT '0.0' NOT NULL, 
	alpha VARCHAR(64), 
	failure_cap BIGINT DEFAULT '0' NOT NULL, 
	failure_spent BIGINT DEFAULT '0' NOT NULL, 
	answers BIGINT DEFAULT '0' NOT NULL, 
	non_private BIGINT DEFAULT '0' NOT NULL, 
	unverified BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (id), 
	CHECK (cap >= 0 AND spent >= 0 AND spent <= cap), 
	CHECK (failure_spent >= 0 AND failure_spent <= failure_cap), 
	UNIQUE (name)
);
INSERT INTO "sotto_data_set" VALUES(1,'data','replace-one','record','100.0','1e-05',52705006246452803,4789346044322940,'0.0',NULL,0,0,3,0,0);
INSERT INTO "sotto_data_set" VALUES(2,'others','add-remove','record','2.0','0.0',2000000000000000,500000000000000,'0.0',NULL,0,0,1,0,0);
CREATE TABLE sotto_entry (
	seq BIGINT NOT NULL, 
	data_set INTEGER NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	release_id VARCHAR(64), 
	amount BIGINT NOT NULL, 
	detail TEXT NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	previous VARCHAR(64) NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	PRIMARY KEY (seq), 
	UNIQUE (release_id, kind), 
	CHECK (amount >= 0), 
	FOREIGN KEY(data_set) REFERENCES sotto_data_set (id)
);
INSERT INTO "sotto_entry" VALUES(1,1,'open',NULL,0,'{"adjacency": "replace-one", "alpha": null, "cap": 52705006246452803, "delta": "1e-05", "epsilon": "100.0", "failure_cap": 0, "failure_delta": "0.0", "fingerprint": "925ade9dd053972b90bb2ccce2a1ae4c36e4a4924db6e4e04ae45d6fb2a08392", "name": "data", "spent": 0, "unit": "record"}','2026-11-22T06:04:07.919+00:00','0000000000000000000000000000000000000000000000000000000000000000','2550bfbdd37998de07f49c8d4e41f231a2408a72ca0d475f4ca940f35e392f30');
INSERT INTO "sotto_entry" VALUES(2,1,'reserve','4ef5fca28bb2bf42-1',1596448681440980,'{"event": {"count": 5, "event": "SelfComposedDpEvent", "inner": {"eta": 1.6267133333333332, "event": "BoundedRange"}}, "note": "synthesis, invisible-ink, fake, change swap, 5 tokens, data key 08c7baf527defbb16e77b298388e3435"}','2026-11-22T06:04:07.949+00:00','2550bfbdd37998de07f49c8d4e41f231a2408a72ca0d475f4ca940f35e392f30','ec532f010925549471d388e44524e6b68d561b4730c1edde7d34a66517c53d0c');
INSERT INTO "sotto_entry" VALUES(3,1,'reserve','4ef5fca28bb2bf42-2',1596448681440980,'{"event": {"count": 5, "event": "SelfComposedDpEvent", "inner": {"eta": 1.6267133333333332, "event": "BoundedRange"}}, "note": "synthesis, invisible-ink, fake, change swap, 5 tokens, data key 08c7baf527defbb16e77b298388e3435"}','2026-11-22T06:04:07.949+00:00','ec532f010925549471d388e44524e6b68d561b4730c1edde7d34a66517c53d0c','88ad60bfe191ec9d3c5327a2ae8c2a38be086ebdc85e5602e6b12dcd28aaab30');
INSERT INTO "sotto_entry" VALUES(4,1,'reserve','4ef5fca28bb2bf42-3',1596448681440980,'{"event": {"count": 5, "event": "SelfComposedDpEvent", "inner": {"eta": 1.6267133333333332, "event": "BoundedRange"}}, "note": "synthesis, invisible-ink, fake, change swap, 5 tokens, data key 08c7baf527defbb16e77b298388e3435"}','2026-11-22T06:04:07.949+00:00','88ad60bfe191ec9d3c5327a2ae8c2a38be086ebdc85e5602e6b12dcd28aaab30','1ec7f1f57988e099468081034045084abb3cc2fab3cf35c3f8deba07261ee74f');
INSERT INTO "sotto_entry" VALUES(5,1,'release','4ef5fca28bb2bf42-1',0,'{"content": "060ff09f4206b9d650097702031b78885065af149aab9478d2f68a700b9be51e 066054f4464ced4e5f0a02acfdaf8eca4f0012ee4a6764668da2b28de8f205c7"}','2026-11-22T06:04:07.976+00:00','1ec7f1f57988e099468081034045084abb3cc2fab3cf35c3f8deba07261ee74f','059ff9ac0ab028e099fdba950dcec72e69e530419148f0e10046416898e2a4c2');
INSERT INTO "sotto_entry" VALUES(6,1,'release','4ef5fca28bb2bf42-2',0,'{"content": "0a6f437937c68d0745ab9e38b5bd016246a41c26e72bbc82f33668adee898e32 b6ad1dc4e9552bc3315e3a57149eb4fe822419d4df65f80ceeefcf99d08977c2"}','2026-11-22T06:04:07.995+00:00','059ff9ac0ab028e099fdba950dcec72e69e530419148f0e10046416898e2a4c2','ab911a835748df943136d7cf76aba70e5b7979512ad55cf1830a2a1fe2baa718');
INSERT INTO "sotto_entry" VALUES(7,1,'release','4ef5fca28bb2bf42-3',0,'{"content": "8fa8b76ea10f6198f8387b5b1b64cab15cad376fafcdbc8062308408bd268197 434037da960f4c730b2d47660e329150e1e284e9547c961542db1885647efc8c"}','2026-11-22T06:04:08.008+00:00','ab911a835748df943136d7cf76aba70e5b7979512ad55cf1830a2a1fe2baa718','65dde9860b6f42977cb714d945f40f696bdfab2944b30cfc5c10a90fa6e81892');
INSERT INTO "sotto_entry" VALUES(8,1,'version',NULL,0,'{"fingerprint": "d1d7bff0983c9cf2073d9ce2069cd814f22ba5c348351a0f443f7d66e71b8bc9"}','2026-11-22T06:04:08.017+00:00','65dde9860b6f42977cb714d945f40f696bdfab2944b30cfc5c10a90fa6e81892','f1f0c434c6eb2551dd8e08b9158175938512c1dc7473698ff217c8e883a418b1');
INSERT INTO "sotto_entry" VALUES(9,2,'open',NULL,0,'{"adjacency": "add-remove", "alpha": null, "cap": 2000000000000000, "delta": "0.0", "epsilon": "2.0", "failure_cap": 0, "failure_delta": "0.0", "fingerprint": "1bbdce612011b8d33b6878e34a2889ce2ee7eb4a6e44cbc33038dc08b94be9d8", "name": "others", "spent": 0, "unit": "record"}','2026-11-22T06:04:08.032+00:00','f1f0c434c6eb2551dd8e08b9158175938512c1dc7473698ff217c8e883a418b1','fb4547d1a7fb283a227d8bd0296095f67fde7299abc3cb1fbe90045bf4e991b3');
INSERT INTO "sotto_entry" VALUES(10,2,'reserve','open-one',500000000000000,'{"event": {"eta": 0.5, "event": "BoundedRange"}, "note": "poe, embedded, change drop"}','2026-11-22T06:04:08.036+00:00','fb4547d1a7fb283a227d8bd0296095f67fde7299abc3cb1fbe90045bf4e991b3','b267aa8995cc9708b3db278cc374e66dac2afe9511a7e084e0d7780d4ad6d2f2');
CREATE TABLE sotto_fingerprint (
	fingerprint VARCHAR(64) NOT NULL, 
	data_set INTEGER NOT NULL, 
	PRIMARY KEY (fingerprint), 
	FOREIGN KEY(data_set) REFERENCES sotto_data_set (id)
);
INSERT INTO "sotto_fingerprint" VALUES('925ade9dd053972b90bb2ccce2a1ae4c36e4a4924db6e4e04ae45d6fb2a08392',1);
INSERT INTO "sotto_fingerprint" VALUES('d1d7bff0983c9cf2073d9ce2069cd814f22ba5c348351a0f443f7d66e71b8bc9',1);
INSERT INTO "sotto_fingerprint" VALUES('1bbdce612011b8d33b6878e34a2889ce2ee7eb4a6e44cbc33038dc08b94be9d8',2);
CREATE TABLE sotto_meta (
	"key" VARCHAR(64) NOT NULL, 
	value VARCHAR(256) NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "sotto_meta" VALUES('schema_version','2');
INSERT INTO "sotto_meta" VALUES('head','10 b267aa8995cc9708b3db278cc374e66dac2afe9511a7e084e0d7780d4ad6d2f2');
COMMIT;
